"""Measures of a search, computed by hand: areas under the best kernel's curve, equal seconds, diversity, and Holm's correction."""

from math import log

import pytest
import sample_run

from evokernel.core.records import Candidate
from evokernel.experiments.intervals import holm_adjust
from evokernel.experiments.search_measures import attempt_seconds, kernel_distance, share_budget, verification_s
from evokernel.reports.metrics import group_by_task

TASK = sample_run.make_task("relu")
FAILED = sample_run.failed_outcome("check", "mismatch")


def passed(speedup, seconds=1.0):
    """The outcome of a kernel with this speed-up over the baseline, verified in so many seconds."""
    outcome = sample_run.estimated_outcome(100.0 / speedup)
    gates = tuple(gate.model_copy(update={"seconds": seconds / len(outcome.gates)}) for gate in outcome.gates)
    return outcome.model_copy(update={"gates": gates})


def make_result(*outcomes, codes=None, task=TASK):
    """The result of a task with these outcomes, one attempt each."""
    codes = codes or [f"kernel {number}" for number in range(len(outcomes))]
    attempts = [
        sample_run.make_attempt(task, number, outcome, candidate=Candidate(backend="cpp", files={"kernel.cpp": code}))
        for number, (outcome, code) in enumerate(zip(outcomes, codes, strict=True))
    ]
    return group_by_task([task], attempts)[0]


def test_best_speedup_never_falls_and_is_the_floor_before_the_first_correct_kernel():
    result = make_result(FAILED, passed(0.5), passed(0.25), passed(2.0))
    budget = share_budget([{0: [result]}], attempts=4)
    assert budget.best_log_speedups(result, -9.0) == [-9.0, *(pytest.approx(log(value)) for value in (0.5, 0.5, 2.0))]


def test_kernel_whose_baseline_was_not_timed_is_compared_with_that_of_other_verifications():
    without = make_result(passed(2.0).model_copy(update={"baseline_us": {}}))
    budget = share_budget([{0: [without]}, {0: [make_result(passed(0.5))]}], attempts=1)
    assert budget.mean_over_attempts(without) == pytest.approx(log(2.0))
    alone = share_budget([{0: [without]}], attempts=1)
    assert alone.mean_over_attempts(without) is None, "nobody timed the baseline"


def test_area_is_the_mean_over_attempts_with_the_slowest_kernel_before_the_first_correct_one():
    fast, slow = make_result(FAILED, passed(0.5), passed(2.0), passed(1.0)), make_result(FAILED, FAILED, FAILED, passed(0.25))
    budget = share_budget([{0: [fast]}, {0: [slow]}], attempts=4)
    assert budget.floors == {TASK.id: pytest.approx(log(0.25))}
    assert budget.mean_over_attempts(fast) == pytest.approx((log(0.25) + log(0.5) + 2 * log(2.0)) / 4)
    assert budget.mean_over_attempts(slow) == pytest.approx(log(0.25)), "a correct kernel is never worse than none"
    assert budget.final_log_speedup(fast) == pytest.approx(log(2.0))
    assert budget.final_log_speedup(make_result(FAILED)) == pytest.approx(log(0.25))


def test_a_search_that_ended_early_keeps_its_last_kernel():
    short = make_result(passed(0.5), passed(2.0))
    budget = share_budget([{0: [short]}], attempts=4)
    assert budget.mean_over_attempts(short) == pytest.approx((log(0.5) + 3 * log(2.0)) / 4)
    longer = make_result(passed(0.5), passed(2.0), passed(4.0), passed(4.0), passed(8.0))
    assert budget.mean_over_attempts(longer) == pytest.approx((log(0.5) + log(2.0) + 2 * log(4.0)) / 4), "attempts beyond the budget"


def test_operator_that_no_arm_solved_has_no_value():
    result = make_result(FAILED, FAILED)
    budget = share_budget([{0: [result]}], attempts=2)
    assert budget.mean_over_attempts(result) is budget.mean_over_seconds(result) is budget.final_log_speedup(result) is None


def test_equal_seconds_are_those_that_every_arm_spent():
    quick, thorough = make_result(passed(0.5, 1.0), passed(1.0, 1.0)), make_result(passed(0.5, 1.5), passed(4.0, 2.5))
    budget = share_budget([{0: [quick]}, {0: [thorough]}], attempts=2)
    assert budget.seconds == {TASK.id: pytest.approx(2.0)}
    assert budget.mean_over_seconds(quick) == pytest.approx((log(0.5) * 1.0 + log(0.5) * 1.0) / 2), "the second kernel arrives at the end"
    assert budget.mean_over_seconds(thorough) == pytest.approx((log(0.5) * 1.5 + log(0.5) * 0.5) / 2), "the fast kernel comes too late"
    assert (budget.share_within_seconds(quick), budget.share_within_seconds(thorough)) == (1.0, 0.5)


def test_seconds_before_the_first_verified_kernel_count_with_the_floor():
    late, soon = make_result(passed(2.0, 3.0)), make_result(passed(2.0, 1.0), passed(0.25, 3.0))
    budget = share_budget([{0: [late]}, {0: [soon]}], attempts=2)
    assert budget.mean_over_seconds(late) == pytest.approx(log(0.25))
    assert budget.mean_over_seconds(soon) == pytest.approx((log(0.25) + 2 * log(2.0)) / 3)


def test_without_recorded_seconds_there_is_no_value_for_equal_seconds():
    result = make_result(passed(2.0, 0.0))
    budget = share_budget([{0: [result]}], attempts=1)
    assert budget.mean_over_seconds(result) is budget.share_within_seconds(result) is verification_s(result) is None
    assert budget.mean_over_attempts(result) == pytest.approx(log(2.0))


def test_outcome_of_another_run_costs_its_seconds_and_an_earlier_attempt_costs_none():
    shared = passed(2.0, 3.0).model_copy(update={"reused_from": "strategies-beam+none-0"})
    result = make_result(shared, shared, passed(1.0, 2.0), codes=["same", "same", "other"])
    assert attempt_seconds(result) == [pytest.approx(3.0), 0.0, pytest.approx(2.0)]


def test_diversity_is_the_mean_distance_of_pairs_of_correct_kernels():
    one, other = "a b c d e f", "a b c d e g"  # each has two sequences of five tokens; one is common
    pair = make_result(passed(1.0), passed(2.0), codes=[one, other])
    assert kernel_distance(pair) == pytest.approx(1 - 1 / 3)
    repeated = make_result(passed(1.0), passed(2.0), passed(2.0), codes=[one, other, one])
    assert kernel_distance(repeated) == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert kernel_distance(make_result(passed(1.0), FAILED, codes=[one, other])) is None, "a failed kernel does not count"


def test_holm_multiplies_the_smallest_p_most_and_keeps_the_order():
    assert holm_adjust([0.01, 0.04, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), pytest.approx(0.06)]
    assert holm_adjust([0.2, 0.9, 0.6]) == [pytest.approx(0.6), 1.0, 1.0]
    assert holm_adjust([0.04]) == [0.04]
    assert holm_adjust([]) == []
