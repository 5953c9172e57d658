"""How sure means are: what is by chance is seldom called a difference, also where whole runs differ."""

import numpy as np
import pytest

from evokernel.experiments import metrics
from evokernel.experiments.intervals import Interval, chance, difference, share_interval


def differences(random, operators=20, seeds=5, by_operator=0.2, by_seed=0.2, by_cell=0.4):
    """Of two arms that are equal, but for chance: of operators, of whole runs, of single attempts."""
    shape = (operators, seeds)
    return random.normal(0, by_operator, (operators, 1)) + random.normal(0, by_seed, (1, seeds)) + random.normal(0, by_cell, shape)


def test_chance_knows_that_operators_of_a_run_share_it():
    random = np.random.default_rng(0)
    found = [chance(differences(random)) for _ in range(100)]
    assert sum(p < 0.05 for p in found) <= 10, "with signs of operators changed, it would be 18"


def test_chance_calls_nothing_a_difference_that_its_interval_does_not():
    random = np.random.default_rng(1)
    found = [differences(random) + shift for shift in (0.0, 0.1, 0.3, 1.0) for _ in range(10)]
    sure = [values for values in found if chance(values) < 0.045]  # ends are interpolated
    assert 10 <= len(sure) < 40
    for values in sure:
        ends = difference(values, np.zeros_like(values))
        assert ends.low > 0 or ends.high < 0


def test_five_of_twelve_against_none_are_not_enough():
    values = np.array([[1.0]] * 5 + [[0.0]] * 7)
    assert difference(values, np.zeros_like(values)).low > 0, "the draws believe it"
    assert chance(values) == pytest.approx(2 / 32, abs=0.01), "five heads in a row, or five tails"


def test_chance_of_a_clear_difference_of_none_and_of_one_operator():
    assert chance(np.ones((20, 3))) < 0.001
    assert chance(-np.ones((20, 3))) < 0.001
    assert chance(np.zeros((10, 3))) == 1.0
    assert chance(np.ones((1, 3))) is None
    assert chance(np.array([[np.nan, np.nan], [1.0, 1.0]])) is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_what_is_always_so_is_not_certain(value):
    found = share_interval(np.full((12, 1), value))
    assert found.mean == value
    assert (found.high - found.low) == pytest.approx(0.2646, abs=1e-3), "none of twelve: up to 26 % by Clopper and Pearson"
    assert share_interval(np.full((12, 5), value)) == found._replace(figures=60), "seeds of an operator are not operators"
    assert share_interval(np.full((12, 1), np.nan)) is None


def test_an_end_that_is_not_quite_nothing_does_not_look_like_it():
    assert metrics.points(Interval(-0.0049, 0.1, 0.23, 9)) == "+10 points [-0.5 to 23]"
    assert metrics.points(Interval(0.0, 0.1, 0.23, 9)) == "+10 points [0 to 23]"
    assert metrics.ratio(Interval(-0.0034, 0.3, 0.6, 9)) == "1.35× [0.997 to 1.82]"
    assert metrics.ratio(Interval(0.0, 0.3, 0.6, 9)) == "1.35× [1.00 to 1.82]"
