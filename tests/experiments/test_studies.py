"""The studies in benchmarks/: their lists, and what they make of attempts that are made up."""

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
from evokernel.experiments.pack_contamination import model_runs, same_operator
from evokernel.reports.metrics import Tried
from evokernel.tasks.loader import files

HOME = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    monkeypatch.syspath_prepend(str(HOME))
    yield
    for name in ("learning_tables", "speed", "study"):
        sys.modules.pop(name, None)


def task(name: str, category: str = "activation") -> Task:
    tensor = Tensor(name="x", dtype="float32", shape=(4,))
    signature = Signature(inputs=(tensor,), outputs=(tensor,))
    return Task(id=name, family=category, category=category, source="", signature=signature, work=Work(flops=1, bytes=1), sizes={})


def attempt(
    of: Task, n: int, us: float | None, notes: str = "drawn afresh: a=1", shown: tuple[str, ...] = (), reason: str = "nan"
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


def tried(name: str, *times: float | None, category: str = "activation", **more) -> Tried:
    made = task(name, category)
    return Tried(made, tuple(attempt(made, n, us, **more) for n, us in enumerate(times)))


def test_the_lists_name_tasks_that_exist_and_share_no_operator():
    table = tomllib.loads((HOME / "learning.toml").read_text())
    known = {file.id: file for file in files("level1,level2")}
    tested, learned = (
        [known[f"{name.split('/')[0]}/{name.split('/')[-1]}"] for name in names]
        for names in (table["operators"], table["pack"]["operators"])
    )
    assert len({file.id for file in tested}) == 40
    assert sum(file.category == "fuse" for file in tested) >= 10
    operators = {file.id: model_runs(file.path.read_text()) for file in tested}
    assert [file.id for file in learned if same_operator(file.path.read_text(), operators)] == []


def test_coverage_counts_by_category_and_gives_reasons():
    spec = spec_from_file_location("coverage_study", HOME / "coverage.py")  # there is a package called coverage
    coverage = module_from_spec(spec)
    spec.loader.exec_module(coverage)
    found = [
        tried("level1/a", None, 2.0),
        tried("level1/b", None, None),
        tried("level1/c", None, reason="no_code", category="sorting"),
        tried("level2/d", 2.0, category="fuse"),
    ]
    rows = {row[:2]: row[2:] for row in coverage.table(found).rows}
    assert rows["level1", "all"] == (1, 3, 1 / 3, 0, 1, 1, 1)
    assert rows["level1", "sorting"][:2] == (0, 1)
    assert rows["level2", "fuse, fused"][:2] == (1, 1)
    assert [row[0::2] for row in coverage.rest(found).rows] == [("level1/b", "nan at check in 2 of 2: why"), ("level1/c", "why")]
    assert coverage.figures(found)["first_feasible"]["level1/a"] == 2


def test_speeds_are_geometric_means_over_what_is_known():
    import speed

    found = [tried("level1/a", 4.0, 2.0), tried("level2/d", 8.0, category="fuse"), tried("level1/b", None)]
    rows = {row["tasks"]: row for row in speed.speeds(found)}
    assert rows["single"]["eager"] == pytest.approx(4.0)
    assert rows["all"]["eager"] == pytest.approx(2.0)
    assert rows["all"]["faster than compile"] == 0.5
    assert rows["all"]["floor"] == pytest.approx((0.5 * 0.125) ** 0.5)
    assert "over compile" in [column.name for column in speed.table(found).columns]


def test_learning_tells_shares_gains_and_why(tmp_path):
    from learning_tables import Told
    from study import markdown

    item = MemoryItem(id="p:t/0", kind="trace", backend="cpp", title="one of the pack", text="", task="t", feasible=True)
    cold = {seed: [tried("level1/a", None, 4.0), tried("level1/b", None, None)] for seed in (0, 1)}
    warm = {
        seed: [tried("level1/a", 2.0, 1.0, notes="taken over from a kernel shown: a=1", shown=("p:t/0",)), tried("level1/b", None, None)]
        for seed in (0, 1)
    }
    told = Told({"value": cold, "warm": warm}, {"p:t/0": item}, ["taken over"], 2, [("warm", "value")])
    tables, figures = told.drafting()
    text = "\n".join(map(markdown, tables))
    assert figures["arms"]["warm"]["round 1"]["mean"] == 0.5
    assert figures["pairs"]["warm - value"]["round 1"]["mean"] == 0.5
    assert figures["why"]["warm"]["feasible_at_once"]["from what was shown"] == 2
    assert "one of the pack" in text
    assert "| level1/a | 0 | 2 | 1 | taken over from a kernel shown | one of the pack |" in text
    tables, figures = told.refining()
    assert "warm against value" in markdown(tables[1])
    assert "4.00×" in markdown(tables[1])
    told.plot(tmp_path, "draft", is_draft=True)
    assert (tmp_path / "draft.svg").exists()
