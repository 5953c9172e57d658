"""Tables and plots of Figures 2, 4 and 6 for sample runs."""

import pytest
import sample_run

from evokernel.core.records import ContextRef
from evokernel.experiments.figures import PAPER_FIGURES, curriculum, outcomes, timeline
from evokernel.reports.metrics import group_by_task

pytestmark = pytest.mark.heavy  # draws figures


@pytest.fixture
def task_results():
    """Four operators: relu is solved first, softmax with relu's memory items, matmul with softmax's, gelu never."""
    relu, softmax, matmul, gelu = (sample_run.make_task(name, name) for name in ("relu", "softmax", "matmul", "gelu"))
    attempts = [
        sample_run.make_attempt(relu, 0, sample_run.passed_outcome(200.0)),
        sample_run.make_attempt(relu, 1, sample_run.passed_outcome(50.0)),
        sample_run.make_attempt(relu, 2, sample_run.passed_outcome(60.0)),
        sample_run.make_attempt(softmax, 0, sample_run.failed_outcome("check", "mismatch")),
        sample_run.make_attempt(softmax, 1, sample_run.passed_outcome(120.0), shown_items=make_refs(relu, "made/gelu/0")),
        sample_run.make_attempt(softmax, 2, sample_run.passed_outcome(110.0)),
        *(sample_run.make_attempt(matmul, number, sample_run.failed_outcome("check", "mismatch")) for number in range(2)),
        sample_run.make_attempt(matmul, 2, sample_run.passed_outcome(300.0), shown_items=make_refs(softmax, "made/relu/0/note")),
        *(sample_run.make_attempt(gelu, number, sample_run.failed_outcome("build", "compile_error")) for number in range(3)),
    ]
    return group_by_task([relu, softmax, matmul, gelu], attempts)


def make_refs(task, *more):
    return tuple(ContextRef(id=f"made-run:{name}", role="trace", q=0.5) for name in (f"{task.id}/0", *more))


def test_outcomes_table_counts_tiers_and_gains(task_results):
    (table,) = outcomes.build_tables({"value": task_results})
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["relu"][:6] == (1, 1.0, 1, 0, 0, 0), "twice as fast as the baseline"
    assert rows["softmax"][2:6] == (0, 1, 0, 0), "0.91 of its speed"
    assert rows["matmul"][2:6] == (0, 0, 0, 1)
    assert rows["gelu"][:2] == (1, 0.0)
    assert rows["all"][:2] == (4, 0.75)
    assert rows["relu"][-1] == 4.0
    assert rows["matmul"][-1] is None, "an operator with one correct kernel has no gain"
    assert "n = 2" in table.note


def test_timeline_table_has_first_solve_and_improvements(task_results):
    assert timeline.improvement_steps(task_results[0]) == [(1, 200.0), (2, 50.0)]
    (table,) = timeline.build_tables({"value": task_results})
    assert table.rows[0][:5] == ("relu", 1, "2", 200.0, 50.0)
    assert table.rows[3] == ("gelu", None, None, None, None, None)


def test_curriculum_traces_operators_shown_at_first_solves(task_results):
    solves = curriculum.find_first_solves(task_results)
    assert {name: solve.shown_tasks for name, solve in solves.items()} == {
        "made/relu": (),
        "made/softmax": ("made/relu",),
        "made/matmul": ("made/softmax", "made/relu"),
    }, "an unsolved operator has no correct kernel to show; notes count like their traces"
    assert curriculum.trace_lineage(solves, "made/matmul") == {"made/matmul": 0, "made/softmax": 1, "made/relu": 1}
    del solves["made/matmul"]
    assert curriculum.trace_lineage(solves, "made/softmax") == {"made/softmax": 0, "made/relu": 1}
    (table,) = curriculum.build_tables({"value": task_results})
    assert table.rows[0] == ("matmul", 3, "softmax (2), relu (1)", 2)


@pytest.mark.parametrize("kind", PAPER_FIGURES)
def test_every_figure_is_drawn_and_is_empty_without_attempts(kind, task_results, tmp_path):
    drawn_plots = [plot for plot in PAPER_FIGURES[kind].draw_plots({"value": task_results}, tmp_path) if plot]
    assert drawn_plots
    for plot in drawn_plots:
        assert (tmp_path / f"{plot.name}.png").stat().st_size > 1000
        assert "<svg" in plot.svg
    empty_results = group_by_task([result.task for result in task_results], [])
    assert [plot for plot in PAPER_FIGURES[kind].draw_plots({"value": empty_results}, tmp_path / "none") if plot] == []
    PAPER_FIGURES[kind].build_tables({"value": empty_results})
