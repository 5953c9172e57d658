"""Confidence intervals and p values: chance is seldom reported as a difference, also if entire runs differ."""

from math import log

import numpy as np
import pytest

from evokernel.experiments import metrics
from evokernel.experiments.intervals import SIGN_FLIPS, Interval, difference_interval, p_value, share_interval, sign_flip_p


def random_differences(random, operators=20, seeds=5, by_operator=0.2, by_seed=0.2, by_cell=0.4):
    """Differences of two equal arms: random effects of operators, of runs and of single attempts."""
    shape = (operators, seeds)
    return random.normal(0, by_operator, (operators, 1)) + random.normal(0, by_seed, (1, seeds)) + random.normal(0, by_cell, shape)


@pytest.mark.slow(one_in=5)
@pytest.mark.heavy
def test_p_value_accounts_for_dependence_within_a_run():
    random = np.random.default_rng(0)
    p_values = [p_value(random_differences(random)) for _ in range(100)]
    assert sum(p < 0.05 for p in p_values) <= 10, "a sign-flip test alone gives 18"


@pytest.mark.heavy
def test_p_value_agrees_with_the_interval():
    random = np.random.default_rng(1)
    samples = [random_differences(random) + shift for shift in (0.0, 0.1, 0.3, 1.0) for _ in range(10)]
    significant = [values for values in samples if p_value(values) < 0.045]  # bounds are interpolated
    assert 10 <= len(significant) < 40
    for values in significant:
        interval = difference_interval(values, np.zeros_like(values))
        assert interval.low > 0 or interval.high < 0


def test_five_of_twelve_against_zero_is_not_significant():
    values = np.array([[1.0]] * 5 + [[0.0]] * 7)
    assert difference_interval(values, np.zeros_like(values)).low > 0, "the bootstrap alone is too optimistic"
    assert p_value(values) == pytest.approx(2 / 32), "five heads in a row, or five tails"


def test_p_value_of_a_clear_difference_of_none_and_of_one_operator():
    assert p_value(np.ones((20, 3))) < 0.001
    assert p_value(-np.ones((20, 3))) < 0.001
    assert p_value(np.zeros((10, 3))) == 1.0
    assert p_value(np.ones((1, 3))) is None
    assert p_value(np.array([[np.nan, np.nan], [1.0, 1.0]])) is None


@pytest.mark.parametrize("operators", [5, 13, 14, 40])
def test_sign_flips_agree_with_flipping_by_hand(operators):
    random = np.random.default_rng(operators)
    for means in random.normal(0.3, 1, (10, operators)):
        signs = np.random.default_rng(7).choice([-1.0, 1.0], (20_000, operators))
        p = float((np.abs((signs * means).mean(axis=1)) >= abs(means.mean()) - 1e-12).mean())
        standard_error = (max(p * (1 - p), 1e-3) * (1 / 20_000 + 1 / SIGN_FLIPS)) ** 0.5
        assert sign_flip_p(means) == pytest.approx(p, abs=5 * standard_error)


def test_sign_flips_of_few_operators_are_exact_and_of_many_repeatable():
    means = np.array([0.3, -0.1, 0.25, 0.4, 0.2])
    assert sign_flip_p(means) == 4 / 32, "flipping -0.1, or nothing, and both with all signs reversed"
    many = np.random.default_rng(0).normal(0.2, 1, 30)
    assert sign_flip_p(many) == sign_flip_p(many)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_equal_values_have_an_exact_interval(value):
    interval = share_interval(np.full((12, 1), value))
    assert interval.mean == value
    assert (interval.high - interval.low) == pytest.approx(0.2646, abs=1e-3), "0 of 12: up to 26 % by Clopper and Pearson"
    assert share_interval(np.full((12, 5), value)) == interval._replace(value_count=60), "seeds of an operator are not operators"
    assert share_interval(np.full((12, 1), np.nan)) is None


def test_bound_close_to_zero_keeps_a_digit():
    assert metrics.format_points(Interval(-0.0049, 0.1, 0.23, 9)) == "+10 points [-0.5 to 23]"
    assert metrics.format_points(Interval(0.0, 0.1, 0.23, 9)) == "+10 points [0 to 23]"
    assert metrics.format_ratio(Interval(-0.0034, 0.3, 0.6, 9)) == "1.35× [0.997 to 1.82]"
    assert metrics.format_ratio(Interval(0.0, 0.3, 0.6, 9)) == "1.35× [1.00 to 1.82]"


def test_one_point_is_singular():
    assert metrics.format_points(Interval(-0.04, -0.01, 0.0, 9)) == "-1 point [-4 to 0]"


def test_speeds_are_faster_or_slower():
    assert metrics.format_speed(Interval(log(0.5), log(0.8), log(2.0), 9)) == "1.25× slower [2.00× slower to 2.00× faster]"
    assert metrics.format_speed(Interval(log(0.5), log(0.625), log(0.8), 9)) == "1.60× slower [1.25 to 2.00]"
    assert metrics.format_speed(Interval(log(1.25), log(1.6), log(2.0), 9)) == "1.60× faster [1.25 to 2.00]"
    assert metrics.format_speed(Interval(0.0, log(1.5), log(2.0), 9)) == "1.50× faster [equally fast to 2.00× faster]"
