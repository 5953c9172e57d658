"""Metrics on attempts made by hand, so that every figure can be worked out on paper."""

from math import sqrt

import made_run
import pytest

from evokernel.core.records import Usage
from evokernel.reports import metrics


@pytest.fixture
def found() -> list[metrics.Tried]:
    return metrics.by_task(*made_run.made())


def test_compiled_and_correct_within_rounds(found: list[metrics.Tried]) -> None:
    # relu compiles and is correct at once; matmul compiles at once; softmax compiles in round 2 and is correct in round 3
    assert metrics.curve(found) == [(1, 2, 1), (2, 3, 1), (3, 3, 2)]
    assert metrics.compiled(found) == 3
    assert metrics.feasible(found, 1) == 1


def test_first_best_gain_and_speed_up(found: list[metrics.Tried]) -> None:
    relu, softmax, matmul = found
    assert (relu.first_round, softmax.first_round, matmul.first_round) == (1, 3, None)
    assert relu.best is not None
    assert relu.best.id == "made/relu/1"
    assert (relu.gain, softmax.gain, matmul.gain) == (4.0, 1.0, None)
    assert (relu.speedup, softmax.speedup, matmul.speedup) == (4.0, 0.5, None)
    assert metrics.geomean(metrics.speedups(found)) == pytest.approx(sqrt(4.0 * 0.5))
    assert metrics.spread(metrics.gains(found)) == (1.75, 2.5, 3.25)
    assert relu.trajectory() == [100.0, 25.0, 25.0]
    assert softmax.trajectory() == [None, None, 200.0]


def test_fast_p_over_all_and_over_correct(found: list[metrics.Tried]) -> None:
    assert metrics.fast_p(found, 1.0) == pytest.approx(1 / 3)
    assert metrics.fast_p(found, 1.0, "correct") == pytest.approx(1 / 2)
    assert metrics.fast_p(found, 0.25, "correct") == 1.0
    assert metrics.fast_p([], 1.0) is None


def test_failures_by_reason_and_round(found: list[metrics.Tried]) -> None:
    _, attempts = made_run.made()
    assert metrics.failures(attempts) == {"mismatch": 3, "compile_error": 1, "crash": 1, "no_code": 1}
    assert metrics.failures_by_round(found) == [{"compile_error": 1, "mismatch": 1}, {"mismatch": 2}, {"crash": 1, "no_code": 1}]


def test_nothing_measured_is_none_and_never_nought() -> None:
    tasks, _ = made_run.made()
    found = metrics.by_task(tasks, [])
    assert metrics.geomean(metrics.speedups(found)) is None
    assert metrics.spread(metrics.gains(found)) is None
    assert metrics.span_s([]) is None
    assert metrics.curve(found) == []
    assert metrics.usage([]) == Usage()


def test_cost_is_unknown_when_one_call_did_not_say() -> None:
    tasks, _ = made_run.made()
    outcome = made_run.passed(1.0)
    known, unknown = made_run.with_usage(0.5), made_run.with_usage(None)
    both = [made_run.attempt(tasks[0], n, outcome, usage=usage) for n, usage in enumerate((known, known))]
    assert metrics.usage(both).cost_usd == 1.0
    assert metrics.usage([*both, made_run.attempt(tasks[0], 2, outcome, usage=unknown)]).cost_usd is None


def test_a_round_lost_to_infrastructure_does_not_count_as_a_try() -> None:
    tasks, _ = made_run.made()
    late = made_run.attempt(tasks[0], 0, made_run.passed(1.0), round=4)
    assert metrics.feasible(metrics.by_task(tasks, [late]), 1) == 1


def test_values_of_memories_over_the_run() -> None:
    _, attempts = made_run.made()
    assert metrics.shown_values(attempts) == {("cpp/tiling", "refine"): [(4, 0.5)], ("cpp/tiling", "draft"): [(5, 0.5)]}
