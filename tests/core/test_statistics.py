"""Comparison of latencies: which kernel is significantly faster."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.core.records import Attempt, Candidate, GateResult, Outcome, Stage
from evokernel.core.state import State, best_so_far, is_faster, speed_gain
from evokernel.core.statistics import MIN_PAIRED_GAIN, is_significant, median_interval, quantile

PASSED, FAILED = ((GateResult(gate="time", passed=passed, reason="" if passed else "mismatch"),) for passed in (True, False))


def make_attempt(name, *samples, incumbent_attempt=None, incumbent=(), gates=PASSED):
    outcome = Outcome(
        gates=gates, samples_us=samples, incumbent_us=incumbent, incumbent=incumbent_attempt.candidate.id if incumbent_attempt else ""
    )
    candidate = Candidate(backend="cpp", files={"kernel.cpp": name})
    return Attempt(id=f"t/x/{name}", run="r", task="t/x", round=0, stage=Stage.DRAFT, candidate=candidate, outcome=outcome, reward=0)


@given(st.lists(st.floats(-1e9, 1e9), min_size=6, max_size=200))
def test_median_lies_in_its_interval(values):
    low, high = median_interval(values)
    assert low <= quantile(values, 0.5) <= high


@pytest.mark.parametrize(("count", "ends"), [(6, (1, 6)), (9, (2, 8)), (20, (6, 15)), (60, (22, 39))])
def test_interval_has_the_published_ranks(count, ends):
    assert median_interval(list(range(1, count + 1))) == ends


def test_fewer_than_six_samples_give_no_interval():
    assert median_interval([1.0] * 5) is None
    assert median_interval([]) is None


def test_interval_misses_the_median_in_about_five_percent():
    random = Random(1)
    intervals = [median_interval([random.lognormvariate(0, 1) for _ in range(20)]) for _ in range(2000)]
    misses = sum(not low <= 1.0 <= high for low, high in intervals)
    assert 0.02 < misses / len(intervals) < 0.06


def test_paired_samples_detect_a_gain_below_the_noise():
    noisy = [100 * (1 + 0.2 * (n % 5)) for n in range(20)]
    best = make_attempt("best", *noisy)
    faster = make_attempt("faster", *(us / 1.05 for us in noisy), incumbent_attempt=best, incumbent=tuple(noisy))
    assert speed_gain(faster.outcome, best) == pytest.approx(0.0488, abs=1e-3)
    assert is_faster(faster, best)
    unpaired = make_attempt("faster", *(us / 1.05 for us in noisy))
    assert not is_faster(unpaired, best)


def test_equal_pairs_are_not_faster_even_if_the_machine_is():
    best = make_attempt("best", *[100.0] * 20)
    noisy = tuple(50 * (1 + 0.02 * (-1) ** n) for n in range(20))  # the machine is twice as fast now
    same = make_attempt("same", *[50.0] * 20, incumbent_attempt=best, incumbent=noisy)
    assert speed_gain(same.outcome, best) == 0
    assert not is_faster(same, best)


def test_pairs_with_another_incumbent_are_ignored():
    other, best = make_attempt("other", *[300.0] * 20), make_attempt("best", *[100.0] * 20)
    new = make_attempt("new", *[100.0] * 20, incumbent_attempt=other, incumbent=(300.0,) * 20)
    assert not is_faster(new, best)


def test_significance_requires_the_margin_of_a_process_restart():
    assert not is_significant((1.0 + MIN_PAIRED_GAIN / 2, 1.2))
    assert is_significant((1.0 + 2 * MIN_PAIRED_GAIN, 1.2))
    assert is_significant((0.5, 0.9))
    assert not is_significant((0.9, 1.1))


def test_exact_latencies_compare_directly():
    assert is_faster(make_attempt("new", 99.99), make_attempt("best", 100.0))
    assert not is_faster(make_attempt("new", 100.0), make_attempt("best", 100.0))


def test_identical_or_failed_kernels_are_not_faster():
    assert not is_faster(make_attempt("same", *[1.0] * 9), make_attempt("same", *[9.0] * 9))
    assert not is_faster(make_attempt("failed", gates=FAILED), None)
    assert is_faster(make_attempt("first", *[9.0] * 9), None)


def test_best_so_far_after_each_attempt():
    attempts = [
        make_attempt("a", gates=FAILED),
        make_attempt("b", *[9.0] * 3),
        make_attempt("c", *[8.9] * 3),
        make_attempt("d", *[4.0] * 3),
        make_attempt("e", 3.99),
    ]
    assert [best.id[-1] if best else None for best in best_so_far(attempts)] == [None, "b", "b", "d", "d"]
    assert State.model_construct(attempts=tuple(attempts)).best == attempts[3]
    assert State.model_construct(attempts=()).best is None


def test_outcome_without_incumbent_samples_has_no_pairs():
    old = Outcome.model_validate_json('{"gates": [], "samples_us": [1.0, 2.0], "baseline_us": {"eager": [2.0, 2.0]}}')
    assert old.incumbent_us == ()
    assert old.speedup_interval("incumbent") is None
    assert old.median_speedup() == 1.5
