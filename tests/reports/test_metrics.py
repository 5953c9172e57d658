"""Metrics of sample attempts, whose values can be computed by hand."""

from math import sqrt

import pytest
import sample_run

from evokernel.core.records import Usage
from evokernel.reports import metrics


@pytest.fixture
def results() -> list[metrics.TaskResult]:
    return metrics.group_by_task(*sample_run.make_sample())


def test_counts_within_rounds(results: list[metrics.TaskResult]) -> None:
    # relu compiles and is correct at once; matmul compiles at once; softmax compiles in round 2 and is correct in round 3
    assert metrics.cumulative_counts(results) == [(1, 2, 1), (2, 3, 1), (3, 3, 2)]
    assert metrics.count_compiled(results) == 3
    assert metrics.count_correct(results, 1) == 1


def test_first_and_best_kernel_gain_and_speedup(results: list[metrics.TaskResult]) -> None:
    relu, softmax, matmul = results
    assert (relu.first_correct_round, softmax.first_correct_round, matmul.first_correct_round) == (1, 3, None)
    assert relu.best is not None
    assert relu.best.id == "made/relu/1"
    assert (relu.gain, softmax.gain, matmul.gain) == (4.0, 1.0, None)
    assert (relu.speedup, softmax.speedup, matmul.speedup) == (4.0, 0.5, None)
    assert metrics.geometric_mean(metrics.list_speedups(results)) == pytest.approx(sqrt(4.0 * 0.5))
    assert metrics.quartiles(metrics.list_gains(results)) == (1.75, 2.5, 3.25)
    assert relu.best_latencies() == [100.0, 25.0, 25.0]
    assert softmax.best_latencies() == [None, None, 200.0]


def test_fast_p_of_all_and_of_correct_tasks(results: list[metrics.TaskResult]) -> None:
    assert metrics.fast_p_share(results, 1.0) == pytest.approx(1 / 3)
    assert metrics.fast_p_share(results, 1.0, "correct") == pytest.approx(1 / 2)
    assert metrics.fast_p_share(results, 0.25, "correct") == 1.0
    assert metrics.fast_p_share([], 1.0) is None


def test_failures_by_reason_and_round(results: list[metrics.TaskResult]) -> None:
    _, attempts = sample_run.make_sample()
    assert metrics.count_failures(attempts) == {"mismatch": 3, "compile_error": 1, "crash": 1, "no_code": 1}
    assert metrics.count_failures_by_round(results) == [{"compile_error": 1, "mismatch": 1}, {"mismatch": 2}, {"crash": 1, "no_code": 1}]


def test_metrics_without_attempts_are_none() -> None:
    tasks, _ = sample_run.make_sample()
    results = metrics.group_by_task(tasks, [])
    assert metrics.geometric_mean(metrics.list_speedups(results)) is None
    assert metrics.quartiles(metrics.list_gains(results)) is None
    assert metrics.elapsed_s([]) is None
    assert metrics.cumulative_counts(results) == []
    assert metrics.total_usage([]) == Usage()


def test_cost_is_unknown_if_one_call_reported_none() -> None:
    tasks, _ = sample_run.make_sample()
    outcome = sample_run.passed_outcome(1.0)
    with_cost, without_cost = sample_run.make_usage(0.5), sample_run.make_usage(None)
    both = [sample_run.make_attempt(tasks[0], n, outcome, usage=usage) for n, usage in enumerate((with_cost, with_cost))]
    assert metrics.total_usage(both).cost_usd == 1.0
    assert metrics.total_usage([*both, sample_run.make_attempt(tasks[0], 2, outcome, usage=without_cost)]).cost_usd is None


def test_round_lost_to_infrastructure_does_not_count_as_attempt() -> None:
    tasks, _ = sample_run.make_sample()
    late = sample_run.make_attempt(tasks[0], 0, sample_run.passed_outcome(1.0), round=4)
    assert metrics.count_correct(metrics.group_by_task(tasks, [late]), 1) == 1


def test_q_values_of_memory_items_over_the_run() -> None:
    _, attempts = sample_run.make_sample()
    assert metrics.q_value_paths(attempts) == {("cpp/tiling", "refine"): [(4, 0.5)], ("cpp/tiling", "draft"): [(5, 0.5)]}
