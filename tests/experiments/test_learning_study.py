"""The studies in benchmarks/: their task lists, and their tables for sample attempts."""

import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from evokernel.core.records import (
    Attempt,
    Candidate,
    ContextRef,
    GateResult,
    MemoryItem,
    Outcome,
    Profile,
    Signature,
    Stage,
    Task,
    Tensor,
    Work,
)
from evokernel.memory.pack_contamination import find_same_operator, model_ngrams
from evokernel.reports.metrics import TaskResult
from evokernel.suites.loader import find_task_files

HOME = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def import_benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(HOME))
    yield
    for name in ("learning_tables", "speed", "study"):
        sys.modules.pop(name, None)


def make_task(name: str, category: str = "activation") -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(4,))
    signature = Signature(inputs=(tensor,), outputs=(tensor,))
    return Task(id=name, family=category, category=category, source="", signature=signature, work=Work(flops=1, bytes=1), sizes={})


def make_attempt(
    of: Task, n: int, us: float | None, notes: str = "sampled without evidence: a=1", shown: tuple[str, ...] = (), reason: str = "nan"
) -> Attempt:
    gate = GateResult(
        gate="check" if reason != "no_code" else "write", passed=us is not None, reason="" if us else reason, detail="why\nmore"
    )
    base = {"eager": (8.0,) * 6, "compile": (4.0,) * 6} if us else {}
    profile = Profile(bottleneck="memory", summary="", figures={"roofline_us": 1.0})
    outcome = Outcome(gates=(gate,), samples_us=(us,) * 6 if us else (), baseline_us=base, profile=profile, clock="cpu")
    return Attempt(
        id=f"{of.id}/{n}",
        run="r",
        task=of.id,
        round=n,
        stage=Stage.DRAFT if n == 0 else Stage.REFINE,
        shown_items=tuple(ContextRef(id=id, role="trace") for id in shown),
        candidate=Candidate(backend="cpp", files={} if reason == "no_code" else {"k": f"{n} {us}"}, notes=notes),
        outcome=outcome,
        reward=1.0,
    )


def make_result(name: str, *times: float | None, category: str = "activation", **more) -> TaskResult:
    task = make_task(name, category)
    return TaskResult(task, tuple(make_attempt(task, n, us, **more) for n, us in enumerate(times)))


def test_task_lists_exist_and_share_no_operator():
    table = tomllib.loads((HOME / "learning.toml").read_text())
    files = {file.id: file for file in find_task_files("level1,level2")}
    test_files, pack_files = (
        [files[f"{name.split('/')[0]}/{name.split('/')[-1]}"] for name in names]
        for names in (table["operators"], table["pack"]["operators"])
    )
    assert len({file.id for file in test_files}) == 40
    assert sum(file.category == "fuse" for file in test_files) >= 10
    operators = {file.id: model_ngrams(file.path.read_text()) for file in test_files}
    assert [file.id for file in pack_files if find_same_operator(file.path.read_text(), operators)] == []


def test_coverage_table_counts_by_category_and_names_reasons():
    spec = spec_from_file_location("coverage_study", HOME / "coverage.py")  # the name coverage is taken by a package
    coverage = module_from_spec(spec)
    spec.loader.exec_module(coverage)
    results = [
        make_result("level1/a", None, 2.0),
        make_result("level1/b", None, None),
        make_result("level1/c", None, reason="no_code", category="sorting"),
        make_result("level2/d", 2.0, category="fuse"),
    ]
    rows = {row[:2]: row[2:] for row in coverage.coverage_table(results).rows}
    assert rows["level1", "all"] == (1, 3, 1 / 3, 0, 1, 1, 1)
    assert rows["level1", "sorting"][:2] == (0, 1)
    assert rows["level2", "fuse, fused"][:2] == (1, 1)
    assert [row[0::2] for row in coverage.unsolved_table(results).rows] == [
        ("level1/b", "nan at check in 2 of 2: why"),
        ("level1/c", "why"),
    ]
    assert coverage.coverage_figures(results)["first_feasible"]["level1/a"] == 2


def test_speeds_are_geometric_means_of_solved_tasks():
    import speed

    results = [make_result("level1/a", 4.0, 2.0), make_result("level2/d", 8.0, category="fuse"), make_result("level1/b", None)]
    rows = {row["tasks"]: row for row in speed.speed_rows(results)}
    assert rows["single"]["eager"] == pytest.approx(4.0)
    assert rows["all"]["eager"] == pytest.approx(2.0)
    assert rows["all"]["faster than compile"] == 0.5
    assert rows["all"]["floor"] == pytest.approx((0.5 * 0.125) ** 0.5)
    assert "speed relative to compile" in [column.name for column in speed.speed_table(results).columns]


def test_learning_tables_have_shares_gains_and_reasons(tmp_path):
    from learning_tables import LearningTables
    from study import table_to_markdown

    item = MemoryItem(id="p:t/0", kind="trace", backend="cpp", title="one of the pack", text="", task="t", feasible=True)
    cold = {seed: [make_result("level1/a", None, 4.0), make_result("level1/b", None, None)] for seed in (0, 1)}
    warm = {
        seed: [
            make_result("level1/a", 2.0, 1.0, notes="reused from kernels shown (activation): a=1", shown=("p:t/0",)),
            make_result("level1/b", None, None),
        ]
        for seed in (0, 1)
    }
    learning = LearningTables({"value": cold, "warm": warm}, {"p:t/0": item}, ["reused from kernels shown"], 2, [("warm", "value")])
    tables, figures = learning.draft_tables()
    text = "\n".join(map(table_to_markdown, tables))
    assert figures["arms"]["warm"]["by round 1"]["mean"] == 0.5
    assert figures["pairs"]["warm - value"]["by round 1"]["mean"] == 0.5
    assert figures["reasons"]["warm"]["feasible_at_once"]["from the context"] == 2
    assert "one of the pack" in text
    assert "| level1/a | 0 | 2 | 1 | reused from kernels shown (activation) | one of the pack |" in text
    tables, figures = learning.refine_tables()
    assert "warm compared with value" in table_to_markdown(tables[1])
    assert "4.00×" in table_to_markdown(tables[1])
    learning.plot(tmp_path, "draft", is_draft=True)
    assert (tmp_path / "draft.svg").exists()
