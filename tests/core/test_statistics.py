"""Which kernel is faster, and when nobody can tell."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evokernel.core.records import Attempt, Candidate, GateResult, Outcome, Stage, State
from evokernel.core.statistics import LEAST_PAIRED, best_so_far, is_faster, is_significant, median_interval, quantile, speed_gain

PASSED, FAILED = ((GateResult(gate="time", passed=passed, reason="" if passed else "mismatch"),) for passed in (True, False))


def attempt(name, *samples, against=None, incumbent=(), gates=PASSED):
    outcome = Outcome(gates=gates, samples_us=samples, incumbent_us=incumbent, incumbent=against.candidate.id if against else "")
    candidate = Candidate(backend="cpp", files={"kernel.cpp": name})
    return Attempt(id=f"t/x/{name}", run="r", task="t/x", round=0, stage=Stage.DRAFT, candidate=candidate, outcome=outcome, reward=0)


@given(st.lists(st.floats(-1e9, 1e9), min_size=6, max_size=200))
def test_the_median_lies_in_its_interval(values):
    low, high = median_interval(values)
    assert low <= quantile(values, 0.5) <= high


@pytest.mark.parametrize(("count", "ends"), [(6, (1, 6)), (9, (2, 8)), (20, (6, 15)), (60, (22, 39))])
def test_the_interval_has_the_published_ranks(count, ends):
    assert median_interval(list(range(1, count + 1))) == ends


def test_five_samples_are_too_few_for_an_interval():
    assert median_interval([1.0] * 5) is None
    assert median_interval([]) is None


def test_the_interval_misses_the_median_about_one_time_in_twenty():
    chance = Random(1)
    intervals = [median_interval([chance.lognormvariate(0, 1) for _ in range(20)]) for _ in range(2000)]
    missed = sum(not low <= 1.0 <= high for low, high in intervals)
    assert 0.02 < missed / len(intervals) < 0.06


def test_pairs_decide_where_the_noise_of_each_side_would_hide_it():
    shaken = [100 * (1 + 0.2 * (n % 5)) for n in range(20)]
    best = attempt("best", *shaken)
    faster = attempt("faster", *(us / 1.05 for us in shaken), against=best, incumbent=tuple(shaken))
    assert speed_gain(faster.outcome, best) == pytest.approx(0.0488, abs=1e-3)
    assert is_faster(faster, best)
    unpaired = attempt("faster", *(us / 1.05 for us in shaken))
    assert not is_faster(unpaired, best)


def test_pairs_that_hold_one_beat_nobody_however_fast_the_day():
    best = attempt("best", *[100.0] * 20)
    shaken = tuple(50 * (1 + 0.02 * (-1) ** n) for n in range(20))  # the machine was twice as fast today
    same = attempt("same", *[50.0] * 20, against=best, incumbent=shaken)
    assert speed_gain(same.outcome, best) == 0
    assert not is_faster(same, best)


def test_pairs_with_another_kernel_than_the_best_do_not_count():
    other, best = attempt("other", *[300.0] * 20), attempt("best", *[100.0] * 20)
    found = attempt("new", *[100.0] * 20, against=other, incumbent=(300.0,) * 20)
    assert not is_faster(found, best)


def test_apart_means_by_more_than_another_start_changes():
    assert not is_significant((1.0 + LEAST_PAIRED / 2, 1.2))
    assert is_significant((1.0 + 2 * LEAST_PAIRED, 1.2))
    assert is_significant((0.5, 0.9))
    assert not is_significant((0.9, 1.1))


def test_exact_latencies_need_only_be_less():
    assert is_faster(attempt("new", 99.99), attempt("best", 100.0))
    assert not is_faster(attempt("new", 100.0), attempt("best", 100.0))


def test_a_kernel_does_not_beat_itself_and_a_failed_one_beats_nobody():
    assert not is_faster(attempt("same", *[1.0] * 9), attempt("same", *[9.0] * 9))
    assert not is_faster(attempt("failed", gates=FAILED), None)
    assert is_faster(attempt("first", *[9.0] * 9), None)


def test_the_best_after_each_attempt():
    made = [attempt("a", gates=FAILED), attempt("b", *[9.0] * 3), attempt("c", *[8.9] * 3), attempt("d", *[4.0] * 3), attempt("e", 3.99)]
    assert [best.id[-1] if best else None for best in best_so_far(made)] == [None, "b", "b", "d", "d"]
    assert State.model_construct(attempts=tuple(made)).best == made[3]
    assert State.model_construct(attempts=()).best is None


def test_outcomes_of_earlier_versions_still_load_and_have_no_pairs():
    old = Outcome.model_validate_json('{"gates": [], "samples_us": [1.0, 2.0], "baseline_us": {"eager": [2.0, 2.0]}}')
    assert old.incumbent_us == ()
    assert old.speedup_interval("incumbent") is None
    assert old.median_speedup() == 1.5
