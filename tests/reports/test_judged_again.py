"""What reports make of bests that were judged once more: their figures, those that moved, those that fell."""

import json

import made_run
import pytest

from evokernel.cli.report import show
from evokernel.core import final_results
from evokernel.core.errors import UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.run import Run
from evokernel.reports import metrics, tables
from evokernel.reports.export import export
from evokernel.reports.page import write_report
from evokernel.reports.summary import summary


def run_with(folder, **judged):
    """The made run; `relu_1=outcome` is the second judgement of made/relu/1."""
    run = made_run.write_run(folder, *made_run.made())
    for name, outcome in judged.items():
        task, _, number = name.partition("_")
        final_results.append_final_result(folder, FinalResult(task=f"made/{task}", attempt=f"made/{task}/{number}", outcome=outcome))
    return run


@pytest.fixture
def moved(tmp_path) -> Run:
    return run_with(tmp_path / "run", relu_1=made_run.passed(50.0), softmax_2=made_run.passed(200.5))


@pytest.fixture
def fell(tmp_path) -> Run:
    return run_with(tmp_path / "run", relu_1=made_run.failed("check", "mismatch"), relu_0=made_run.passed(101.0))


def test_figures_of_the_best_are_those_of_the_second_judgement(moved):
    relu, softmax, matmul = metrics.of_run(moved, moved.attempts())
    assert (relu.speedup, relu.gain, relu.moved_us) == (2.0, 2.0, 25.0)
    assert (softmax.moved_us, softmax.gain) == (None, 1.0), "200 and 200.5 µs are the same"
    assert matmul.outcome is None
    text = show(tables.operators([relu, softmax, matmul]), title=False)
    assert "50.0 µs (first 25.0 µs)" in text
    assert "judged again when the run was over" in " ".join(text.split())
    assert dict(tables.totals([relu, softmax, matmul], 1.0))["judged again"] == "1 as before, 1 with another time"


def test_a_best_that_does_not_hold_up_makes_room_for_the_next(fell):
    relu, *_ = found = metrics.of_run(fell, fell.attempts())
    assert relu.best.id == "made/relu/0"
    assert [attempt.id for attempt in relu.fallen] == ["made/relu/1"]
    assert relu.trajectory() == [100.0, 100.0, 100.0]
    assert relu.gates_passed == 1
    assert "1 as before; did not hold up: made/relu/1 (mismatch)" in dict(tables.totals(found, 1.0))["judged again"]
    assert "made/relu/1 did not hold up when it was judged again: mismatch" in write_report(fell, fell.attempts(), []).read_text()


def test_a_task_whose_only_kernel_fell_is_not_solved(tmp_path):
    run = run_with(tmp_path / "run", softmax_2=made_run.failed("check", "crash"))
    found = metrics.of_run(run, run.attempts())
    assert [tried.solved for tried in found] == [True, False, False]
    assert metrics.feasible(found) == 1
    said = summary(run, run.attempts(), None, None)
    assert (said["feasible"], said["fallen"]) == (1, ["made/softmax/2"])
    assert said["per_task"][1]["fallen"] == {"made/softmax/2": "crash"}


def test_the_summary_tells_both_times(moved):
    said = summary(moved, moved.attempts(), None, None)
    assert said["judged_again"] == 2
    assert (said["per_task"][0]["best_us"], said["per_task"][0]["before_us"]) == (50.0, 25.0)
    assert [one["judged_again"] for one in said["per_task"]] == [True, True, False]


def test_what_fell_is_not_exported(fell, tmp_path):
    done = export(fell, fell.attempts(), tmp_path / "out")
    assert [(one.attempt, one.latency_us) for one in done.kernels] == [("made/relu/0", 101.0), ("made/softmax/2", 200.0)]
    told = json.loads((tmp_path / "out/made-relu/provenance.json").read_text())
    assert (told["latency_us"], told["outcome"]["samples_us"][0], told["judged_again"]["samples_us"][0]) == (101.0, 100.0, 101.0)
    assert json.loads((tmp_path / "out/made-softmax/provenance.json").read_text())["judged_again"] is None


def test_nothing_that_holds_up_is_nothing_to_export(tmp_path):
    wrong = made_run.failed("check", "mismatch")
    run = run_with(tmp_path / "run", relu_0=wrong, relu_1=wrong, softmax_2=wrong)
    with pytest.raises(UserError, match="nothing to export"):
        export(run, run.attempts(), tmp_path / "out")


def test_runs_of_earlier_versions_have_no_second_judgement(tmp_path):
    run = made_run.write_run(tmp_path / "run", *made_run.made())
    found = metrics.of_run(run, run.attempts())
    assert [tried.final for tried in found] == [None] * 3
    assert "judged again" not in dict(tables.totals(found, 1.0))
    assert "judged again" not in tables.operators(found).caption


def test_reports_say_by_what_and_without_what_was_judged(tmp_path):
    run = run_with(tmp_path / "run")
    assert "judged" not in dict(tables.totals(metrics.of_run(run, run.attempts()), 1.0)), "earlier journals do not say"
    looked = {"protocol": "strict", "without": ("sandbox: no landlock (too old)",)}
    attempts = [a.model_copy(update={"outcome": a.outcome.model_copy(update=looked)}) for a in run.attempts()]
    told = dict(tables.totals(metrics.of_run(run, attempts), 1.0))
    assert (told["judged"], told["without"]) == ("protocol strict", "sandbox: no landlock (too old)")
    said = summary(run, attempts, None, None)
    assert (said["protocol"], said["without"]) == (["strict"], ["sandbox: no landlock (too old)"])
    assert "no landlock (too old)" in write_report(run, attempts, []).read_text()
