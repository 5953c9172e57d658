"""Reports on re-evaluated best kernels: confirmed ones, ones with a different latency, and ones that failed."""

import json

import pytest
import sample_run

from evokernel.core import final_results
from evokernel.core.errors import UserError
from evokernel.core.final_results import FinalResult
from evokernel.core.run import Run
from evokernel.reports import metrics, tables
from evokernel.reports.export import export_kernels
from evokernel.reports.page import write_report
from evokernel.reports.summary import summarize_run
from evokernel.reports.text_tables import format_report_table

pytestmark = pytest.mark.heavy  # draws figures


def run_with(folder, **reevaluations):
    """The sample run; `relu_1=outcome` is the re-evaluation of made/relu/1."""
    run = sample_run.write_run(folder, *sample_run.make_sample())
    for name, outcome in reevaluations.items():
        task, _, number = name.partition("_")
        final_results.append_final_result(folder, FinalResult(task=f"made/{task}", attempt=f"made/{task}/{number}", outcome=outcome))
    return run


@pytest.fixture
def changed_run(tmp_path) -> Run:
    return run_with(tmp_path / "run", relu_1=sample_run.passed_outcome(50.0), softmax_2=sample_run.passed_outcome(200.5))


@pytest.fixture
def failed_run(tmp_path) -> Run:
    return run_with(tmp_path / "run", relu_1=sample_run.failed_outcome("check", "mismatch"), relu_0=sample_run.passed_outcome(101.0))


def test_figures_of_the_best_kernel_are_those_of_the_reevaluation(changed_run):
    relu, softmax, matmul = metrics.collect_results(changed_run, changed_run.attempts())
    assert (relu.speedup, relu.gain, relu.original_latency_us) == (2.0, 2.0, 25.0)
    assert (softmax.original_latency_us, softmax.gain) == (None, 1.0), "200 and 200.5 µs are the same"
    assert matmul.best_outcome is None
    text = format_report_table(tables.operator_table([relu, softmax, matmul]), title=False)
    assert "50.0 µs (in the loop 25.0 µs)" in text
    assert "latency in the re-evaluation after the run" in " ".join(text.split())
    assert dict(tables.run_totals([relu, softmax, matmul], 1.0))["re-evaluation"] == "1 confirmed, 1 with a different latency"


def test_failed_reevaluation_promotes_the_next_kernel(failed_run):
    relu, *_ = results = metrics.collect_results(failed_run, failed_run.attempts())
    assert relu.best.id == "made/relu/0"
    assert [attempt.id for attempt in relu.failed_reevaluations] == ["made/relu/1"]
    assert relu.best_latencies() == [100.0, 100.0, 100.0]
    assert relu.correct_count == 1
    assert "1 confirmed; failed: made/relu attempt 2 (mismatch)" in dict(tables.run_totals(results, 1.0))["re-evaluation"]
    assert "made/relu attempt 2 failed the re-evaluation: mismatch" in write_report(failed_run, failed_run.attempts(), []).read_text()


def test_task_whose_only_kernel_failed_the_reevaluation_is_not_solved(tmp_path):
    run = run_with(tmp_path / "run", softmax_2=sample_run.failed_outcome("check", "crash"))
    results = metrics.collect_results(run, run.attempts())
    assert [result.is_solved for result in results] == [True, False, False]
    assert metrics.count_correct(results) == 1
    summary = summarize_run(run, run.attempts(), None, None)
    assert (summary["feasible"], summary["failed_reevaluation"]) == (1, ["made/softmax/2"])
    assert summary["per_task"][1]["failed_reevaluation"] == {"made/softmax/2": "crash"}


def test_summary_has_both_latencies(changed_run):
    summary = summarize_run(changed_run, changed_run.attempts(), None, None)
    assert summary["reevaluated"] == 2
    assert (summary["per_task"][0]["best_us"], summary["per_task"][0]["best_loop_us"]) == (50.0, 25.0)
    assert [one["reevaluated"] for one in summary["per_task"]] == [True, True, False]


def test_kernel_that_failed_the_reevaluation_is_not_exported(failed_run, tmp_path):
    export = export_kernels(failed_run, failed_run.attempts(), tmp_path / "out", export_all=True)
    assert [(one.attempt, one.latency_us) for one in export.kernels] == [("made/relu/0", 101.0), ("made/softmax/2", 200.0)]
    folder = tmp_path / "out" / "evokernel_cpp"
    provenance = json.loads((folder / "made_relu_not_faster" / "provenance.json").read_text())
    assert (provenance["timing"]["latency_us"], provenance["outcome"]["samples_us"][0], provenance["reevaluation"]["samples_us"][0]) == (
        101.0,
        100.0,
        101.0,
    )
    assert json.loads((folder / "made_softmax_slower" / "provenance.json").read_text())["reevaluation"] is None


def test_export_is_refused_if_every_kernel_failed_the_reevaluation(tmp_path):
    wrong = sample_run.failed_outcome("check", "mismatch")
    run = run_with(tmp_path / "run", relu_0=wrong, relu_1=wrong, softmax_2=wrong)
    with pytest.raises(UserError, match="nothing to export"):
        export_kernels(run, run.attempts(), tmp_path / "out")


def test_run_without_reevaluation_has_no_such_line(tmp_path):
    run = sample_run.write_run(tmp_path / "run", *sample_run.make_sample())
    results = metrics.collect_results(run, run.attempts())
    assert [result.best_reevaluation for result in results] == [None] * 3
    assert "re-evaluation" not in dict(tables.run_totals(results, 1.0))
    assert "re-evaluation" not in tables.operator_table(results).caption


def test_reports_name_protocol_and_skipped_checks(tmp_path):
    run = run_with(tmp_path / "run")
    assert "protocol" not in dict(tables.run_totals(metrics.collect_results(run, run.attempts()), 1.0)), (
        "the sample journal names no protocol"
    )
    update = {"protocol": "strict", "skipped_checks": ("sandbox: layer landlock is not active (too old)",)}
    attempts = [a.model_copy(update={"outcome": a.outcome.model_copy(update=update)}) for a in run.attempts()]
    totals = dict(tables.run_totals(metrics.collect_results(run, attempts), 1.0))
    assert (totals["protocol"], totals["skipped check"]) == ("strict", "sandbox: layer landlock is not active (too old)")
    summary = summarize_run(run, attempts, None, None)
    assert (summary["protocol"], summary["skipped_checks"]) == (["strict"], ["sandbox: layer landlock is not active (too old)"])
    assert "layer landlock is not active (too old)" in write_report(run, attempts, []).read_text()
