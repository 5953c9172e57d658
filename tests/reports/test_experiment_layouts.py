"""Figures 2, 4 and 6: what is told of hand-made runs, and that it can be drawn."""

import made_run
import pytest

from evokernel.core.records import ContextRef
from evokernel.experiments.figures import LAYOUTS, curriculum, outcomes, timeline
from evokernel.reports.metrics import by_task


@pytest.fixture
def tries():
    """Four operators: relu solved first, softmax with relu's memory, matmul with softmax's, gelu never."""
    relu, softmax, matmul, gelu = (made_run.task(name, name) for name in ("relu", "softmax", "matmul", "gelu"))
    attempts = [
        made_run.attempt(relu, 0, made_run.passed(200.0)),
        made_run.attempt(relu, 1, made_run.passed(50.0)),
        made_run.attempt(relu, 2, made_run.passed(60.0)),
        made_run.attempt(softmax, 0, made_run.failed("check", "mismatch")),
        made_run.attempt(softmax, 1, made_run.passed(120.0), shown=shown(relu, "made/gelu/0")),
        made_run.attempt(softmax, 2, made_run.passed(110.0)),
        *(made_run.attempt(matmul, number, made_run.failed("check", "mismatch")) for number in range(2)),
        made_run.attempt(matmul, 2, made_run.passed(300.0), shown=shown(softmax, "made/relu/0/note")),
        *(made_run.attempt(gelu, number, made_run.failed("build", "compile_error")) for number in range(3)),
    ]
    return by_task([relu, softmax, matmul, gelu], attempts)


def shown(task, *more):
    return tuple(ContextRef(id=f"made-run:{name}", role="trace", q=0.5) for name in (f"{task.id}/0", *more))


def test_categories_tiers_and_gains(tries):
    (table,) = outcomes.tables({"value": tries})
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["relu"][:6] == (1, 1.0, 1, 0, 0, 0), "twice as fast as the baseline"
    assert rows["softmax"][2:6] == (0, 1, 0, 0), "0.91 of its speed"
    assert rows["matmul"][2:6] == (0, 0, 0, 1)
    assert rows["gelu"][:2] == (1, 0.0)
    assert rows["all"][:2] == (4, 0.75)
    assert rows["relu"][-1] == 4.0
    assert rows["matmul"][-1] is None, "one correct kernel gains nothing that could be told"
    assert "n = 2" in table.note


def test_timelines(tries):
    assert timeline.steps(tries[0]) == [(1, 200.0), (2, 50.0)]
    (table,) = timeline.tables({"value": tries})
    assert table.rows[0][:5] == ("relu", 1, "2", 200.0, 50.0)
    assert table.rows[3] == ("gelu", None, None, None, None, None)


def test_who_was_shown_at_first_solves(tries):
    found = curriculum.solves(tries)
    assert {name: solve.shown for name, solve in found.items()} == {
        "made/relu": (),
        "made/softmax": ("made/relu",),
        "made/matmul": ("made/softmax", "made/relu"),
    }, "what was never solved taught nothing that works; notes count like the traces they are about"
    assert curriculum.lineage(found, "made/matmul") == {"made/matmul": 0, "made/softmax": 1, "made/relu": 1}
    del found["made/matmul"]
    assert curriculum.lineage(found, "made/softmax") == {"made/softmax": 0, "made/relu": 1}
    (table,) = curriculum.tables({"value": tries})
    assert table.rows[0] == ("matmul", 3, "softmax (2), relu (1)", 2)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_layout_is_drawn_and_says_nothing_of_nothing(kind, tries, tmp_path):
    drawn = [plot for plot in LAYOUTS[kind].drawings({"value": tries}, tmp_path) if plot]
    assert drawn
    for plot in drawn:
        assert (tmp_path / f"{plot.name}.png").stat().st_size > 1000
        assert "<svg" in plot.svg
    nothing = by_task([tried.task for tried in tries], [])
    assert [plot for plot in LAYOUTS[kind].drawings({"value": nothing}, tmp_path / "none") if plot] == []
    LAYOUTS[kind].tables({"value": nothing})
