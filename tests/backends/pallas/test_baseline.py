"""The XLA baseline: the converted reference computes the same values, its estimate is right, and it is computed once."""

import gzip
import json
import logging
import os
import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest
from time_limits import HANG_S

import evokernel
from evokernel.backends.pallas import baseline, compiler
from evokernel.backends.pallas.backend import PallasBackend
from evokernel.backends.pallas.baseline import Baseline, BaselineUnavailable, baseline_us
from evokernel.backends.pallas.chips import get_chip
from evokernel.backends.pallas.environment import ENVIRONMENT
from evokernel.core.records import Signature, Task, Tensor, Work
from evokernel.suites.loader import load_tasks

needs_compiler = pytest.mark.skipif(compiler.unavailable_reason() is not None, reason=compiler.unavailable_reason() or "")
needs_torchax = pytest.mark.skipif("torchax" not in {d.name for d in metadata.distributions()}, reason="needs torchax")
V5E = get_chip("v5e")
SHIPPED = baseline.SHIPPED_FILE
OPERATORS = [path.stem for path in sorted((Path(str(evokernel.__file__)).parent / "suites" / "starter").glob("[a-z]*.py"))]
LOWERED = ("gelu", "sum_rows")
X = Tensor(name="x", dtype="float32", shape=(8,))
TASK = Task(
    id="t/t", family="elementwise", source="", signature=Signature(inputs=(X,), outputs=(X,)), work=Work(flops=8, bytes=64),
    sizes={"bench": {}, "small": {}},
)  # fmt: skip


@pytest.fixture(scope="module")
def starter():
    return {task.id.partition("/")[2]: task for task in load_tasks("starter")}


@pytest.fixture(scope="module")
def conversions(starter, tmp_path_factory):
    """The results of one process that converts all references, and the folder with two programs."""
    into = tmp_path_factory.mktemp("programs")
    tasks = {name: (task.source, task.sizes["small"]) for name, task in starter.items()}
    request = json.dumps({"tasks": tasks, "programs": LOWERED, "into": str(into)})
    script = str(Path(__file__).parent / "baseline_conversion.py")
    result = subprocess.run(
        [sys.executable, script], input=request, capture_output=True, text=True, timeout=200, env={**os.environ, **ENVIRONMENT}
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout), into


@pytest.fixture(autouse=True)
def empty_caches(monkeypatch, tmp_path):
    """No baselines in this process or on disk, and none from the package unless a test requests them."""
    monkeypatch.setattr(baseline, "_baselines", {})
    monkeypatch.setattr(baseline, "SHIPPED_FILE", tmp_path / "none.json")
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    baseline.load_shipped_baselines.cache_clear()
    yield
    baseline.load_shipped_baselines.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def end_compiler_process():
    yield
    compiler.shut_down()


@pytest.mark.slow(one_in=5)
@needs_torchax
@pytest.mark.parametrize("name", OPERATORS)
def test_converted_reference_computes_the_same(conversions, name):
    assert conversions[0]["distances"][name] < 1e-5


@needs_torchax
def test_all_starter_operators_are_converted(conversions, starter):
    assert len(OPERATORS) == 16
    assert set(conversions[0]["distances"]) == set(OPERATORS) == set(starter)


@needs_torchax
def test_converting_does_not_load_torchs_compiler(conversions):
    assert conversions[0]["heavy"] == [], "it takes five seconds"


@needs_torchax
def test_unusual_references_are_converted_or_rejected(conversions):
    odd = dict(conversions[0]["odd"])
    assert odd.pop("random") == "ConversionMismatch: the outputs of the converted reference have different values"
    assert odd.pop("decided_by_values").startswith("ConcretizationTypeError: ")
    assert odd == dict.fromkeys(odd, "converted")
    assert len(odd) == 7


@needs_torchax
@needs_compiler
def test_the_faster_of_two_compile_variants_is_the_baseline(conversions, tmp_path, monkeypatch):
    estimates = []
    estimate = baseline.estimate_schedule
    monkeypatch.setattr(baseline, "estimate_schedule", lambda *args, **more: estimates.append(estimate(*args, **more)) or estimates[-1])
    result = baseline.estimate_program((conversions[1] / "sum_rows").read_bytes(), V5E, tmp_path, time.monotonic() + HANG_S)
    assert len(estimates) == 2, "the first variant prefetches a parameter, so the program is compiled again without prefetch"
    assert estimates[1].latency_us < estimates[0].latency_us * 0.95
    assert result == Baseline(estimates[1].latency_us)
    floor = 2048 * 1536 * 4 / V5E.hbm_bytes_per_s * 1e6
    assert floor < result.us < 1.5 * floor


@needs_torchax
@needs_compiler
def test_without_prefetch_one_variant_is_compiled(conversions, tmp_path, monkeypatch):
    result = baseline.estimate_program((conversions[1] / "gelu").read_bytes(), V5E, tmp_path, time.monotonic() + HANG_S)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")] == ["schedule/0"]
    floor = 2 * 512 * 1024 * 4 / V5E.hbm_bytes_per_s * 1e6
    assert result.us is not None
    assert floor < result.us < 2 * floor


@pytest.mark.slow(one_in=5)
@needs_torchax
@needs_compiler
def test_computed_baseline_equals_the_shipped_one(starter):
    shipped = {(row["chip"], row["task"]): row for row in json.loads(SHIPPED.read_text())}
    result = baseline.compute_baseline(starter["gelu"], V5E)
    assert result.us == pytest.approx(shipped["v5e", "starter/gelu"]["us"], rel=1e-6), "run benchmarks/baselines.py, and raise METHOD"


@needs_torchax
def test_baselines_of_all_starter_operators_are_shipped(starter, monkeypatch):
    monkeypatch.setattr(baseline, "SHIPPED_FILE", SHIPPED)
    replace_computation(monkeypatch, Baseline(None))
    latencies = {name: baseline_us(task, V5E) for name, task in starter.items()}
    assert [name for name, us in latencies.items() if not us] == [], "run benchmarks/baselines.py"


@needs_torchax
def test_failed_conversion_is_logged_once_and_cached(starter, monkeypatch, caplog):
    replace_conversion(monkeypatch, "import sys; sys.stdout.write('TypeError: not here'); sys.exit(1)")
    for _ in range(2):
        assert baseline_us(starter["gelu"], V5E) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"], "logged once"
    assert "no XLA baseline of starter/gelu on v5e: the reference cannot be converted to XLA: TypeError: not here" in caplog.text
    replace_conversion(monkeypatch, "")
    monkeypatch.setattr(baseline, "_baselines", {})
    assert "TypeError: not here" in baseline.find_baseline(starter["gelu"], V5E).reason, "the failure is cached"


@pytest.mark.parametrize(
    ("code", "message", "is_temporary"),
    [
        ("import os; os.kill(os.getpid(), 9)", "ended with SIGKILL", True),
        ("import time; time.sleep(900)", "takes more than 0.5 s", True),
        ("", "cannot be converted", False),
    ],
)
def test_conversion_without_a_program_makes_the_baseline_unavailable(monkeypatch, tmp_path, code, message, is_temporary):
    replace_conversion(monkeypatch, code)
    if "more than" in message:
        monkeypatch.setattr(baseline, "CONVERT_TIMEOUT_S", 0.5)
    with pytest.raises(BaselineUnavailable, match=message) as caught:
        baseline.convert_reference(TASK, V5E, tmp_path)
    assert caught.value.is_temporary is is_temporary


def test_conversion_does_not_inherit_environment_variables(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "1")
    replace_conversion(monkeypatch, "import os, sys; sys.stdout.write(' '.join(os.environ)); sys.exit(1)")
    with pytest.raises(BaselineUnavailable) as caught:
        baseline.convert_reference(TASK, V5E, tmp_path)
    assert "JAX_PLATFORMS" in str(caught.value)
    assert "SECRET" not in str(caught.value)


def replace_conversion(monkeypatch, code):
    """Runs other code instead of the conversion."""
    monkeypatch.setattr(baseline.isolated_python, "isolated_command", lambda *_: [sys.executable, "-c", code])


def replace_computation(monkeypatch, result, delay_s=0.0):
    """Returns a fixed result instead of computing a baseline; the list of calls."""
    calls = []

    def compute_baseline(task, chip):
        calls.append(task.id)
        time.sleep(delay_s)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(baseline, "compute_baseline", compute_baseline)
    return calls


@needs_torchax
def test_cached_baseline_is_not_computed_again(monkeypatch):
    calls = replace_computation(monkeypatch, Baseline(7.5, notes=("a: decided by data",)))
    first = baseline.find_baseline(TASK, V5E)
    monkeypatch.setattr(baseline, "_baselines", {})
    assert baseline.find_baseline(TASK, V5E) == first == Baseline(7.5, notes=("a: decided by data",))
    assert calls == ["t/t"]


@needs_torchax
def test_concurrent_requests_compute_the_baseline_once(monkeypatch):
    calls = replace_computation(monkeypatch, Baseline(7.5), delay_s=0.3)
    cache_file = baseline.paths.cache_folder() / "baselines" / "key.json"
    results = []
    threads = [threading.Thread(target=lambda: results.append(baseline.compute_and_cache(TASK, V5E, cache_file))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (calls, results) == (["t/t"], [Baseline(7.5)] * 2)


@needs_torchax
def test_timeout_is_retried_after_a_day(monkeypatch):
    calls = replace_computation(monkeypatch, BaselineUnavailable("not within 180 s", is_temporary=True))
    for _ in range(2):
        assert baseline.find_baseline(TASK, V5E) == Baseline(None, "not within 180 s")
        monkeypatch.setattr(baseline, "_baselines", {})
    assert len(calls) == 1
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + baseline.RETRY_S)
    replace_computation(monkeypatch, Baseline(3.0))
    assert baseline_us(TASK, V5E) == 3.0


def replace_compiler(monkeypatch, *modules):
    """The compiler returns these modules one after another, and times out after the last; the list of flags it received."""
    received_flags = []

    def compile_program(program, topology, into, *, flags, timeout_s):
        received_flags.append(flags)
        if len(received_flags) > len(modules):
            raise compiler.CompileTimeout("not in time")
        into.mkdir(parents=True)
        (into / "1-TLP-hlo.txt").write_text(modules[len(received_flags) - 1])

    def estimate_schedule(folder, chip, *, limit_s):
        is_offloaded = "sparsecore" in baseline.read_module_text(folder)
        notes = ("gather.1 (custom-call-update): no schedule was dumped, counted as zero",) if is_offloaded else ()
        wait = SimpleNamespace(kind="copy-done", latency_us=3.0)
        return SimpleNamespace(latency_us=9.0 - len(received_flags), operations=[wait], notes=notes, is_certified=not is_offloaded)

    monkeypatch.setattr(baseline, "compile_program", compile_program)
    monkeypatch.setattr(baseline, "estimate_schedule", estimate_schedule)
    return received_flags


def test_timeout_of_the_second_variant_keeps_the_first(monkeypatch, tmp_path):
    received_flags = replace_compiler(monkeypatch, "cross_program_prefetch_index=0")
    assert baseline.estimate_program(b"", V5E, tmp_path, time.monotonic() + HANG_S) == Baseline(8.0)
    assert received_flags == [(), ("--xla_max_cross_program_prefetches=0",)]
    replace_compiler(monkeypatch)
    with pytest.raises(BaselineUnavailable, match="XLA takes too long to compile the reference") as caught:
        baseline.estimate_program(b"", V5E, tmp_path, time.monotonic() + HANG_S)
    assert caught.value.is_temporary


def test_program_with_sparse_cores_is_compiled_without_them(monkeypatch, tmp_path):
    received_flags = replace_compiler(monkeypatch, '}, execution_thread="sparsecore"', "")
    result = baseline.estimate_program(b"", get_chip("v6e"), tmp_path, time.monotonic() + HANG_S)
    assert result == Baseline(7.0, notes=("compiled without the SparseCores, whose latency cannot be estimated",))
    assert received_flags == [(), ("--xla_tpu_offload_gather_to_sparsecore=false",)]


@needs_torchax
@pytest.mark.parametrize("text", ["", "{", "[]", '{"us": 1}'])
def test_unreadable_cache_file_is_replaced(monkeypatch, text):
    replace_computation(monkeypatch, Baseline(3.0))
    path = baseline.paths.cache_folder() / "baselines" / f"{baseline.baseline_key(TASK, V5E)}.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert baseline_us(TASK, V5E) == 3.0
    assert baseline.read_cached(path) == Baseline(3.0)


@needs_torchax
def test_unusable_cache_folder_is_ignored(monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "file"))
    replace_computation(monkeypatch, Baseline(3.0))
    with caplog.at_level(logging.WARNING):
        assert baseline_us(TASK, V5E) == 3.0
    assert caplog.text == ""


@needs_torchax
def test_key_changes_with_source_sizes_chip_method_and_versions(monkeypatch):
    key = baseline.baseline_key(TASK, V5E)
    assert baseline.baseline_key(TASK.model_copy(update={"id": "other/name", "family": "f"}), V5E) == key
    others = {
        baseline.baseline_key(TASK.model_copy(update={"source": "x = 1"}), V5E),
        baseline.baseline_key(TASK.model_copy(update={"sizes": {"bench": {"N": 3}, "small": {}}}), V5E),
        baseline.baseline_key(TASK, get_chip("v6e")),
    }
    monkeypatch.setattr(baseline, "METHOD", baseline.METHOD + 1)
    others.add(baseline.baseline_key(TASK, V5E))
    monkeypatch.setattr(metadata, "version", lambda name: "9.9")
    others.add(baseline.baseline_key(TASK, V5E))
    assert len(others - {key}) == 5


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(baseline, "PACKAGES", ("no-such-package",))
    result = baseline.find_baseline(TASK, V5E)
    assert result == Baseline(None, "no-such-package is not installed: pip install 'evokernel[pallas]'")


def test_doubts_that_a_baseline_tolerates():
    module = "  %convert.5 = f32[]{:T(128)S(6)} convert(%x)\n  %sort.1 = f32[256,1024]{1,0} sort(%y)\n"
    assert baseline.is_tolerated_doubt("gather_fusion: control flow is decided by data whose values the estimate does not know", module)
    assert baseline.is_tolerated_doubt("convert.5 (convert): no schedule was dumped, counted as zero", module)
    assert not baseline.is_tolerated_doubt("sort.1 (sort): no schedule was dumped, counted as zero", module)
    assert not baseline.is_tolerated_doubt("while.2: the trip count of the loop is unknown, counted once", module)
    assert not baseline.is_tolerated_doubt("operations are missing: the estimate exceeded its time limit", module)


@pytest.mark.slow(one_in=5)
def test_without_baseline_setting_no_baseline_is_computed(monkeypatch, tmp_path):
    (tmp_path / "schedule").mkdir()
    (tmp_path / "inspect").mkdir()
    (tmp_path / "inspect" / "tables.json").write_text("[]")
    for name, text in json.loads(gzip.decompress((Path(__file__).parent / "schedules" / "add.json.gz").read_bytes())).items():
        (tmp_path / "schedule" / name).write_text(text)
    requests = []
    monkeypatch.setattr(baseline, "baseline_us", lambda task, chip: requests.append(task.id) or 9.0)
    task = load_tasks("starter/gelu")[0]
    assert PallasBackend(device="never", baseline=False).estimate_latency(task, tmp_path, "").baseline_us == {}
    assert not requests
    assert PallasBackend(device="never").estimate_latency(task, tmp_path, "").baseline_us == {"xla": (9.0,)}
