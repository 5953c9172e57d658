"""What-ifs of the simulator obey the laws of a replay, and profiles name the cause of a kernel's latency with its worth."""

import json
from pathlib import Path
from typing import Any

import pytest
from part_runs import build_parts, call_in_child

from evokernel.backends.ascendc.better_kernel import estimate_better_kernel
from evokernel.backends.ascendc.chips import find_chip
from evokernel.backends.ascendc.diagnostics import locate_sites
from evokernel.backends.ascendc.opportunities import FINDERS, KernelFacts, list_opportunities
from evokernel.backends.ascendc.profile import BOTTLENECK_BY_CAUSE, profile_kernel
from evokernel.backends.ascendc.simulator_report import PIPES, PREFIX, LaunchReport, SiteSaving, parse_reports
from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.causes import CAUSES
from evokernel.core.errors import CandidateError
from evokernel.core.records import Profile, Task
from evokernel.suites import loader

CHIP = find_chip("910B2")
FOLDER = Path(__file__).parents[3] / "benchmarks" / "opportunities"
CARDS = Path(__file__).parents[3] / "src" / "evokernel" / "backends" / "ascendc" / "knowledge"
needs_compiler = pytest.mark.skipif(missing_compiler_message("") is not None, reason="no C++ compiler")
CYCLES = 36000.0
REPORT: dict[str, Any] = {
    "op": "KernelCustom", "block_dim": 48, "blocks": 48, "blocks_run": 48, "blocks_dry": 0, "guesses": 0, "is_part": False,
    "matches_dry": True, "tiling_key": 0, "workspace": 0, "cycles": CYCLES, "us": 22.0, "ub_peak": 131072, "vec_instr": 4800,
    "mte_instr": 512, "mte2_bytes": 4 << 20, "mte3_bytes": 4 << 20, "scalar_gm": 0, "scalar_gm_miss": 0, "scalar_ub": 0, "macs": 0,
    "raw_pointers": False, "busy": {"S": 1e5, "V": 2e5, "MTE2": 1.6e6, "MTE3": 5e5}, "end": 1.728e6, "notes": [], "bytes": [16, 16],
    "call": 1, "cube_start": 0.0, "library_start": 0.0, "best_cores": 48,
}  # fmt: skip


def parse(**changed: object) -> LaunchReport:
    return parse_reports(f"{PREFIX} {json.dumps(REPORT | changed)}")[0]


def find_causes(saved: dict[str, float], lines: dict[str, int] | None = None, **changed: object) -> list[tuple[str, float, int]]:
    """The opportunities of a report; `saved` as shares of the cycles."""
    task = loader.load_tasks("starter/scale_shift")[0]
    report = parse(saved={name: share * CYCLES for name, share in saved.items()}, **changed)
    facts = KernelFacts(task, report, CHIP, 48, None, lines or {})
    return [(one.cause, one.gain_us, one.line) for one in list_opportunities(facts)]


# ---- reports


@pytest.mark.parametrize(
    "changed",
    [
        {"saved": {"V": CYCLES * 1.1}}, {"saved": {"V": -1.0}}, {"saved": {"everything": 1.0}}, {"saved": [1.0]}, {"saved": {"V": "1"}},
        {"sites": [["12ab", "V", CYCLES * 2]]}, {"sites": [["12ab", "V"]]}, {"sites": [["12ab", "anything", 1.0]]},
        {"sites": [[1, "V", 1.0]]},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_savings_are_refused_as_forged(changed: dict[str, object]) -> None:
    with pytest.raises(CandidateError) as caught:
        parse(**changed)
    assert caught.value.reason == "forbidden"


def test_report_without_replays_has_no_opportunities() -> None:
    task = loader.load_tasks("starter/scale_shift")[0]
    assert profile_kernel(task, parse(), CHIP).opportunities == ()


def test_largest_gain_comes_first_and_small_ones_are_left_out() -> None:
    causes = find_causes({"buffers": 0.5, "alignment": 0.2, "even": 0.001})
    assert [cause for cause, *_ in causes] == ["no_overlap", "unaligned_copies"]
    assert causes[0][1] == pytest.approx(CHIP.cycles_to_us(CYCLES / 2), abs=1e-3)


def test_barriers_explain_what_more_buffers_would_also_gain() -> None:
    assert [cause for cause, *_ in find_causes({"buffers": 0.5, "barriers": 0.48})] == ["synchronisation"]


def test_line_is_the_one_with_the_most_of_that_work() -> None:
    sites = [["1a", "MTE2", 100.0], ["1b", "accesses", 500.0], ["1c", "accesses", 400.0], ["1d", "accesses", 200.0]]
    lines = {"1a": 7, "1b": 8, "1c": 9, "1d": 9}
    assert find_causes({"accesses": 0.5}, lines, sites=sites) == [("scalar_work", pytest.approx(10.0), 9)]


def test_scalar_accesses_that_cost_little_themselves_are_named_as_waiting() -> None:
    task = loader.load_tasks("starter/scale_shift")[0]
    summaries = []
    for scalar_cycles in (1e5, 1e6):  # of all blocks together
        report = parse(saved={"accesses": CYCLES / 2}, busy=REPORT["busy"] | {"S": scalar_cycles})
        (found,) = list_opportunities(KernelFacts(task, report, CHIP, 48, None, {}))
        summaries.append(found.summary)
    assert "wait until other pipes have finished" in summaries[0]
    assert "wait until" not in summaries[1]


def test_launches_beyond_the_first_are_an_opportunity() -> None:
    task = loader.load_tasks("starter/scale_shift")[0]
    report = LaunchReport(**{**parse(saved={"nothing": 0.0}).__dict__, "launches": 3, "us": 26.0})
    found = list_opportunities(KernelFacts(task, report, CHIP, 48, None, {}))
    assert [(one.cause, one.gain_us) for one in found] == [("launch", 4.0)]


def test_every_cause_is_known_and_every_card_exists() -> None:
    task = loader.load_tasks("starter/matmul")[0]
    better = estimate_better_kernel(task, CHIP)
    assert better is not None
    assert better.product_us > 0
    changes: list[dict[str, object]] = [
        {}, {"block_dim": 4, "blocks": 4, "blocks_run": 4}, {"macs": 1, "library_start": 20000.0}, {"macs": 1, "library_start": 6540.0},
        {"scalar_gm": 5}, {"mte_instr": 100000},
    ]  # fmt: skip
    saved = dict.fromkeys(("copies", "accesses", "reductions", "calls", "library", "barriers", "meetings", "alignment"), 9000.0)
    for changed in changes:
        report = parse(saved={**saved, "buffers": 20000.0, "traffic": 9000.0, "cores": 9000.0, "even": 9000.0, "tiles": 5000.0}, **changed)
        facts = KernelFacts(task, report, CHIP, 48, better, {})
        for one in (one for find in FINDERS for one in find(facts)):
            assert one.cause in CAUSES
            assert one.cause in BOTTLENECK_BY_CAUSE
            assert (CARDS / f"{one.card}.md").exists(), one.card
            assert 0 <= one.gain_us <= report.us


@pytest.mark.parametrize(
    ("name", "is_library", "card"),
    [
        ("starter/matmul", True, "matmul-tiles"),
        ("starter/matmul", False, "product-by-hand"),
        ("starter/conv2d", None, "convolution-with-epilogue"),
        ("starter/attention_head", None, "attention-in-steps"),
        ("starter/linear_gelu", None, "product-with-epilogue"),
    ],
)
def test_card_on_products_fits_the_kernel_and_the_operator(name: str, is_library: bool | None, card: str) -> None:
    """`is_library`: through Matmul, or by hand; None: on the vector unit."""
    task = loader.load_tasks(name)[0]
    changed = {} if is_library is None else {"macs": 1, "library_start": 6540.0 * is_library}
    report = parse(saved={"products": 30000.0}, **changed)
    facts = KernelFacts(task, report, CHIP, 24, estimate_better_kernel(task, CHIP), {})
    found = {one.cause: one.card for find in FINDERS for one in find(facts)}
    assert found["product_on_vector" if is_library is None else "matrix_work"] == card


# ---- replays


ELEMENTS = 48 * 4096 * 3
"""Three tiles for each core."""


def resize(task: Task) -> Task:
    """The elementwise task with fewer elements."""
    tensors = [tensor.model_copy(update={"shape": (ELEMENTS,)}) for tensor in (*task.signature.inputs, *task.signature.outputs)]
    signature = task.signature.model_copy(update={"inputs": (tensors[0],), "outputs": (tensors[1],)})
    return task.model_copy(update={"signature": signature})


class BuiltKernels:
    """Kernels of the benchmark, each built and run once at a small size."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.reports = folder, {}

    def run(self, name: str, operator: str = "gate", **options: Any) -> tuple[Path, Task, dict[str, Any]]:
        task = loader.load_tasks(str(FOLDER / f"{operator}.py"))[0]
        task = resize(task) if operator == "gate" else task
        workdir = self.folder / name
        if name not in self.reports:
            workdir.mkdir()
            text = (FOLDER / "ascendc" / f"{name}.asc").read_text()
            build_parts({"kernel.asc": text}, task.signature, workdir)
            self.reports[name] = call_in_child(workdir, "run_launch", task.signature, **options)
        return workdir, task, self.reports[name]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> BuiltKernels:
    return BuiltKernels(tmp_path_factory.mktemp("opportunities"))


def check_laws(report: dict[str, Any]) -> None:
    """Nothing free changes nothing; whatever is free, the kernel does not take longer; two things free save no less than each of them."""
    saved, cycles = report["saved"], report["cycles"]
    assert saved["nothing"] == pytest.approx(0, abs=1e-6 * cycles)
    assert all(0 <= value <= cycles for value in saved.values())
    assert saved["copies"] >= max(saved["MTE2"], saved["MTE3"]) - 1e-6
    assert saved["S"] + 1e-6 >= 0
    assert report["sites"]
    assert {work for _, work, _ in report["sites"]} <= {*PIPES, *saved}


@needs_compiler
@pytest.mark.slow(one_in=5)
def test_replay_of_blocks_that_run_alone(kernels: BuiltKernels) -> None:
    workdir, task, report = kernels.run("single_buffer.faulty")
    check_laws(report)
    line_texts = (workdir / "project" / "op_kernel.cpp").read_text().splitlines()
    sites = [SiteSaving(*site) for site in report["sites"]]
    lines = locate_sites(workdir, [site.addresses for site in sites], {"op_kernel.cpp": 0})
    copies = sorted((site for site in sites if site.work in ("MTE2", "MTE3")), key=lambda site: -site.cycles)
    assert {line_texts[lines[site.addresses] - 1].strip() for site in copies[:2]} == {
        "DataCopy(x, xGm[at], size);",
        "DataCopy(outGm[at], y, size);",
    }
    launch, top, *_ = profile_of(report, task).opportunities  # at this size the launch is most of the time
    fixed = kernels.run("single_buffer.fixed")[2]
    assert (launch.cause, top.cause) == ("launch", "no_overlap")
    assert top.gain_us == pytest.approx(report["us"] - fixed["us"], rel=0.05)


def profile_of(report: dict[str, Any], task: Task) -> Profile:
    return profile_kernel(task, parse_reports(f"{PREFIX} {json.dumps(report)}")[0], CHIP, estimate_better_kernel(task, CHIP))


@needs_compiler
@pytest.mark.slow(one_in=5)
def test_replay_of_blocks_that_wait_for_each_other(kernels: BuiltKernels) -> None:
    _, task, report = kernels.run("sync_each_tile.faulty")
    check_laws(report)
    assert profile_of(report, task).opportunities[0].cause == "synchronisation"


@needs_compiler
@pytest.mark.slow(one_in=5)
def test_replay_of_products(kernels: BuiltKernels) -> None:
    _, task, report = kernels.run("two_objects.faulty", "product")
    check_laws(report)
    assert report["saved"]["library"] == pytest.approx(2 * CHIP.matmul_start, rel=1e-6)
    top = profile_of(report, task).opportunities[0]
    assert top.cause == "library_start"
    assert top.gain_us == pytest.approx(CHIP.cycles_to_us(CHIP.matmul_start), rel=1e-3)


@needs_compiler
@pytest.mark.slow(one_in=5)
def test_a_vector_core_without_work_does_not_make_the_work_of_the_blocks_uneven(tmp_path: Path) -> None:
    text = (FOLDER / "ascendc" / "sync_each_tile.faulty.asc").read_text()
    for old, new in (
        ("blocks = 48", "blocks = 24"),
        ("first = GetBlockIdx() * t.share;", "first = GetBlockIdx() / 2 * t.share;"),
        ("t.share : t.n - first;", "t.share : t.n - first;\n    if (GetSubBlockIdx()) count = 0;"),
        ("  Kernel op;", "  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);\n  if ASCEND_IS_AIC return;\n  Kernel op;"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    task = resize(loader.load_tasks(str(FOLDER / "gate.py"))[0])
    build_parts({"kernel.asc": text}, task.signature, tmp_path)
    report = call_in_child(tmp_path, "run_launch", task.signature)
    check_laws(report)
    assert report["saved"]["even"] < 0.05 * report["cycles"]
