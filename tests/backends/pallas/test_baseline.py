"""XLA's program for a reference: it computes what the reference does, has the right price, and is worked out once."""

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

import evokernel
from evokernel.backends.pallas import baseline, compiler
from evokernel.backends.pallas.backend import PallasBackend
from evokernel.backends.pallas.baseline import Baseline, Unavailable, baseline_us
from evokernel.backends.pallas.chips import chip
from evokernel.backends.pallas.environment import ENVIRONMENT
from evokernel.core.records import Signature, Task, Tensor, Work
from evokernel.tasks.loader import load

needs_compiler = pytest.mark.skipif(compiler.missing() is not None, reason=compiler.missing() or "")
needs_torchax = pytest.mark.skipif("torchax" not in {d.name for d in metadata.distributions()}, reason="needs torchax")
V5E = chip("v5e")
SHIPPED = baseline.SHIPPED
OPERATORS = [path.stem for path in sorted((Path(str(evokernel.__file__)).parent / "tasks" / "starter").glob("[a-z]*.py"))]
PRICED = ("gelu", "sum_rows")
X = Tensor(name="x", dtype="float32", shape=(8,))
TASK = Task(
    id="t/t", family="elementwise", source="", signature=Signature(inputs=(X,), outputs=(X,)), work=Work(flops=8, bytes=64),
    sizes={"bench": {}, "small": {}},
)  # fmt: skip


@pytest.fixture(scope="module")
def starter():
    return {task.id.partition("/")[2]: task for task in load("starter")}


@pytest.fixture(scope="module")
def conversions(starter, tmp_path_factory):
    """All that one process says about all references, and the folder with two programs."""
    into = tmp_path_factory.mktemp("programs")
    tasks = {name: (task.source, task.sizes["small"]) for name, task in starter.items()}
    order = json.dumps({"tasks": tasks, "programs": PRICED, "into": str(into)})
    script = str(Path(__file__).parent / "baseline_conversion.py")
    done = subprocess.run(
        [sys.executable, script], input=order, capture_output=True, text=True, timeout=200, env={**os.environ, **ENVIRONMENT}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout), into


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch, tmp_path):
    """Neither from this process nor from the disk, nor from the package unless a test asks for that."""
    monkeypatch.setattr(baseline, "_found", {})
    monkeypatch.setattr(baseline, "SHIPPED", tmp_path / "none.json")
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "cache"))
    baseline.shipped.cache_clear()
    yield
    baseline.shipped.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def leave_no_process():
    yield
    compiler.close()


@needs_torchax
@pytest.mark.parametrize("name", OPERATORS)
def test_the_converted_reference_computes_the_same(conversions, name):
    assert conversions[0]["distances"][name] < 1e-5


@needs_torchax
def test_all_starter_operators_are_converted(conversions, starter):
    assert len(OPERATORS) == 16
    assert set(conversions[0]["distances"]) == set(OPERATORS) == set(starter)


@needs_torchax
def test_converting_does_not_load_torchs_compiler(conversions):
    assert conversions[0]["heavy"] == [], "it takes five seconds"


@needs_torchax
def test_references_of_many_kinds(conversions):
    odd = dict(conversions[0]["odd"])
    assert odd.pop("of_chance") == "Different: the converted reference gives other values"
    assert odd.pop("decided_by_values").startswith("ConcretizationTypeError: ")
    assert odd == dict.fromkeys(odd, "converted")
    assert len(odd) == 7


@needs_torchax
@needs_compiler
def test_the_faster_of_two_ways_to_compile(conversions, tmp_path, monkeypatch):
    seen = []
    estimate = baseline.estimate
    monkeypatch.setattr(baseline, "estimate", lambda *args, **more: seen.append(estimate(*args, **more)) or seen[-1])
    found = baseline.priced((conversions[1] / "sum_rows").read_bytes(), V5E, tmp_path, time.monotonic() + 100)
    assert len(seen) == 2, "it prefetches a parameter, so it is compiled again without"
    assert seen[1].us < seen[0].us * 0.95
    assert found == Baseline(seen[1].us)
    floor = 2048 * 1536 * 4 / V5E.hbm_bytes_per_s * 1e6
    assert floor < found.us < 1.5 * floor


@needs_torchax
@needs_compiler
def test_one_way_is_enough_without_a_prefetch(conversions, tmp_path, monkeypatch):
    found = baseline.priced((conversions[1] / "gelu").read_bytes(), V5E, tmp_path, time.monotonic() + 100)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")] == ["schedule/0"]
    floor = 2 * 512 * 1024 * 4 / V5E.hbm_bytes_per_s * 1e6
    assert found.us is not None
    assert floor < found.us < 2 * floor


@needs_torchax
@needs_compiler
def test_from_a_task_to_the_price_the_package_knows(starter):
    shipped = {(row["chip"], row["task"]): row for row in json.loads(SHIPPED.read_text())}
    found = baseline.worked_out(starter["gelu"], V5E)
    assert found.us == pytest.approx(shipped["v5e", "starter/gelu"]["us"], rel=1e-6), "run benchmarks/baselines.py, and raise METHOD"


@needs_torchax
def test_the_package_knows_the_starter_operators(starter, monkeypatch):
    monkeypatch.setattr(baseline, "SHIPPED", SHIPPED)
    counted(monkeypatch, Baseline(None))
    found = {name: baseline_us(task, V5E) for name, task in starter.items()}
    assert [name for name, us in found.items() if not us] == [], "run benchmarks/baselines.py"


@needs_torchax
def test_a_reference_that_cannot_be_converted(starter, monkeypatch, caplog):
    converting_by(monkeypatch, "import sys; sys.stdout.write('TypeError: not here'); sys.exit(1)")
    for _ in range(2):
        assert baseline_us(starter["gelu"], V5E) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"], "said once"
    assert "no XLA baseline of starter/gelu on v5e: the reference cannot be converted to XLA: TypeError: not here" in caplog.text
    converting_by(monkeypatch, "")
    monkeypatch.setattr(baseline, "_found", {})
    assert "TypeError: not here" in baseline.baseline(starter["gelu"], V5E).reason, "it is not tried again"


@pytest.mark.parametrize(
    ("code", "words", "passing"),
    [
        ("import os; os.kill(os.getpid(), 9)", "died of SIGKILL", True),
        ("import time; time.sleep(60)", "takes more than 0.5 s", True),
        ("", "cannot be converted", False),
    ],
)
def test_a_conversion_that_leaves_nothing(monkeypatch, tmp_path, code, words, passing):
    converting_by(monkeypatch, code)
    monkeypatch.setattr(baseline, "CONVERT_S", 0.5)
    with pytest.raises(Unavailable, match=words) as caught:
        baseline.converted(TASK, V5E, tmp_path)
    assert caught.value.passing is passing


def test_the_conversion_sees_nothing_of_ours(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "1")
    converting_by(monkeypatch, "import os, sys; sys.stdout.write(' '.join(os.environ)); sys.exit(1)")
    with pytest.raises(Unavailable) as caught:
        baseline.converted(TASK, V5E, tmp_path)
    assert "JAX_PLATFORMS" in str(caught.value)
    assert "SECRET" not in str(caught.value)


def converting_by(monkeypatch, code):
    """Other code in the place of the conversion."""
    monkeypatch.setattr(baseline.clean_python, "command", lambda *_: [sys.executable, "-c", code])


def counted(monkeypatch, result, delay_s=0.0):
    calls = []

    def worked_out(task, chip):
        calls.append(task.id)
        time.sleep(delay_s)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(baseline, "worked_out", worked_out)
    return calls


@needs_torchax
def test_what_is_kept_is_not_worked_out_again(monkeypatch):
    calls = counted(monkeypatch, Baseline(7.5, notes=("a: decided by data",)))
    first = baseline.baseline(TASK, V5E)
    monkeypatch.setattr(baseline, "_found", {})
    assert baseline.baseline(TASK, V5E) == first == Baseline(7.5, notes=("a: decided by data",))
    assert calls == ["t/t"]


@needs_torchax
def test_two_who_ask_at_once_get_one_answer(monkeypatch):
    calls = counted(monkeypatch, Baseline(7.5), delay_s=0.3)
    kept = baseline.folders.cache() / "baselines" / "key.json"
    found = []
    threads = [threading.Thread(target=lambda: found.append(baseline.found_once(TASK, V5E, kept))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (calls, found) == (["t/t"], [Baseline(7.5)] * 2)


@needs_torchax
def test_too_slow_today_may_be_quick_tomorrow(monkeypatch):
    calls = counted(monkeypatch, Unavailable("not within 180 s", passing=True))
    for _ in range(2):
        assert baseline.baseline(TASK, V5E) == Baseline(None, "not within 180 s")
        monkeypatch.setattr(baseline, "_found", {})
    assert len(calls) == 1
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + baseline.RETRY_S)
    counted(monkeypatch, Baseline(3.0))
    assert baseline_us(TASK, V5E) == 3.0


def compiled_by(monkeypatch, *modules):
    """The compiler gives these modules, one after the other, and takes too long for more; the flags it was given."""
    given = []

    def compile_program(program, topology, into, *, flags, timeout_s):
        given.append(flags)
        if len(given) > len(modules):
            raise compiler.TooSlow("not in time")
        into.mkdir(parents=True)
        (into / "1-TLP-hlo.txt").write_text(modules[len(given) - 1])

    def estimate(folder, chip, *, limit_s):
        offloaded = "sparsecore" in baseline.module_text(folder)
        notes = ("gather.1 (custom-call-update): no schedule was dumped, counted as nothing",) if offloaded else ()
        waits = SimpleNamespace(kind="copy-done", us=3.0)
        return SimpleNamespace(us=9.0 - len(given), operations=[waits], notes=notes, certified=not offloaded)

    monkeypatch.setattr(baseline, "compile_program", compile_program)
    monkeypatch.setattr(baseline, "estimate", estimate)
    return given


def test_one_way_to_compile_is_better_than_none(monkeypatch, tmp_path):
    given = compiled_by(monkeypatch, "cross_program_prefetch_index=0")
    assert baseline.priced(b"", V5E, tmp_path, time.monotonic() + 10) == Baseline(8.0)
    assert given == [(), ("--xla_max_cross_program_prefetches=0",)]
    compiled_by(monkeypatch)
    with pytest.raises(Unavailable, match="XLA takes too long to compile the reference") as caught:
        baseline.priced(b"", V5E, tmp_path, time.monotonic() + 10)
    assert caught.value.passing


def test_what_runs_on_sparse_cores_has_no_price(monkeypatch, tmp_path):
    given = compiled_by(monkeypatch, '}, execution_thread="sparsecore"', "")
    found = baseline.priced(b"", chip("v6e"), tmp_path, time.monotonic() + 10)
    assert found == Baseline(7.0, notes=("without the SparseCores, for which there is no price",))
    assert given == [(), ("--xla_tpu_offload_gather_to_sparsecore=false",)]


@needs_torchax
@pytest.mark.parametrize("text", ["", "{", "[]", '{"us": 1}'])
def test_what_cannot_be_read_is_worked_out(monkeypatch, text):
    counted(monkeypatch, Baseline(3.0))
    path = baseline.folders.cache() / "baselines" / f"{baseline.key_of(TASK, V5E)}.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert baseline_us(TASK, V5E) == 3.0
    assert baseline.read(path) == Baseline(3.0)


@needs_torchax
def test_a_cache_that_cannot_be_used_is_no_error(monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVOKERNEL_CACHE", str(tmp_path / "file"))
    counted(monkeypatch, Baseline(3.0))
    with caplog.at_level(logging.WARNING):
        assert baseline_us(TASK, V5E) == 3.0
    assert caplog.text == ""


@needs_torchax
def test_the_key_changes_with_what_decides(monkeypatch):
    key = baseline.key_of(TASK, V5E)
    assert baseline.key_of(TASK.model_copy(update={"id": "other/name", "family": "f"}), V5E) == key
    others = {
        baseline.key_of(TASK.model_copy(update={"source": "x = 1"}), V5E),
        baseline.key_of(TASK.model_copy(update={"sizes": {"bench": {"N": 3}, "small": {}}}), V5E),
        baseline.key_of(TASK, chip("v6e")),
    }
    monkeypatch.setattr(baseline, "METHOD", baseline.METHOD + 1)
    others.add(baseline.key_of(TASK, V5E))
    monkeypatch.setattr(metadata, "version", lambda name: "9.9")
    others.add(baseline.key_of(TASK, V5E))
    assert len(others - {key}) == 5


def test_without_torchax_it_says_so(monkeypatch):
    monkeypatch.setattr(baseline, "PACKAGES", ("no-such-package",))
    found = baseline.baseline(TASK, V5E)
    assert found == Baseline(None, "no-such-package is not installed: pip install 'evokernel[pallas]'")


def test_which_doubts_a_baseline_may_have():
    module = "  %convert.5 = f32[]{:T(128)S(6)} convert(%x)\n  %sort.1 = f32[256,1024]{1,0} sort(%y)\n"
    assert baseline.tolerated("gather_fusion: control flow is decided by data that is not known here", module)
    assert baseline.tolerated("convert.5 (convert): no schedule was dumped, counted as nothing", module)
    assert not baseline.tolerated("sort.1 (sort): no schedule was dumped, counted as nothing", module)
    assert not baseline.tolerated("while.2: how often the loop runs is not known, counted once", module)
    assert not baseline.tolerated("operations are left out: pricing took too long", module)


def test_whoever_wants_no_baseline_waits_for_none(monkeypatch, tmp_path):
    (tmp_path / "schedule").mkdir()
    (tmp_path / "inspect").mkdir()
    (tmp_path / "inspect" / "tables.json").write_text("[]")
    for name, text in json.loads(gzip.decompress((Path(__file__).parent / "schedules" / "add.json.gz").read_bytes())).items():
        (tmp_path / "schedule" / name).write_text(text)
    asked = []
    monkeypatch.setattr(baseline, "baseline_us", lambda task, chip: asked.append(task.id) or 9.0)
    task = load("starter/gelu")[0]
    assert PallasBackend(device="never", baseline=False).estimate_latency(task, tmp_path, "").baseline_us == {}
    assert not asked
    assert PallasBackend(device="never").estimate_latency(task, tmp_path, "").baseline_us == {"xla": (9.0,)}
