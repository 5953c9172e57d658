"""Computes confidence intervals and p values of means over operators and seeds by bootstrap, for one arm and for paired arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import NamedTuple

import numpy as np

from evokernel.reports.metrics import TaskResult

DRAWS, CONFIDENCE, SEED, SIGN_FLIPS = 2000, 0.95, 0, 9999
Grid = np.ndarray
"""Operators × seeds; NaN without a value."""


class Interval(NamedTuple):
    """A mean with its 95 % confidence interval."""

    low: float
    mean: float
    high: float
    value_count: int
    """Number of values."""

    def exp(self) -> Interval:
        """Return the interval of the geometric mean if this one is of logarithms."""
        return Interval(exp(self.low), exp(self.mean), exp(self.high), self.value_count)


def build_grid(results: Mapping[int, Sequence[TaskResult]], value_of: Callable[[TaskResult], float | None]) -> Grid:
    """Return a metric's value of every operator and seed."""
    columns = [[np.nan if (value := value_of(result)) is None else value for result in results[seed]] for seed in sorted(results)]
    return np.array(columns, dtype=np.float64).T


def bootstrap_interval(values: Grid) -> Interval | None:
    """Return the mean with its interval; operators and seeds are resampled independently, with replacement. None without values.

    Seeds are resampled too because operators of one run share its memory and are not independent.
    """
    if not (has_value := np.isfinite(values)).any():
        return None
    low, high = np.quantile(bootstrap_means(values), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Interval(float(low), float(values[has_value].mean()), float(high), int(has_value.sum()))


def bootstrap_means(values: Grid) -> np.ndarray:
    """Return the means of resampled operators and seeds."""
    has_value = np.isfinite(values)
    random = np.random.default_rng(SEED)
    operators, seeds = values.shape
    rows = random.integers(0, operators, (DRAWS, operators))
    columns = random.integers(0, seeds, (DRAWS, seeds))
    at = (rows[:, :, None], columns[:, None, :])
    counts = has_value[at].sum(axis=(1, 2))
    sums = np.where(has_value, values, 0.0)[at].sum(axis=(1, 2))
    means: np.ndarray = sums[counts > 0] / counts[counts > 0]
    return means


def share_interval(values: Grid) -> Interval | None:
    """Return the interval of 0/1 values. If all are equal, resampling cannot vary: use Clopper and Pearson's interval over operators."""
    interval = bootstrap_interval(values)
    if interval is None or interval.low < interval.high or interval.mean not in (0.0, 1.0):
        return interval
    from scipy import stats  # here, because it takes most of a second to import

    operators = int(np.isfinite(values).any(axis=1).sum())
    exact = stats.binomtest(operators if interval.mean else 0, operators).proportion_ci(CONFIDENCE, method="exact")
    return interval._replace(low=float(exact.low), high=float(exact.high))


def difference_interval(one: Grid, other: Grid) -> Interval | None:
    """Return the interval of the mean of `one` minus `other`, paired: only operators and seeds with a value in both count."""
    return bootstrap_interval(one - other)


def p_value(differences: Grid) -> float | None:
    """Return the probability of such a difference by chance: the larger of two p values; None with fewer than two operators.

    The first resamples operators and seeds and counts, two-sided, how often the difference vanishes or changes its sign. Like the interval,
    it accounts for operators that share the memory of a run, but it is too small with few operators. The second, `sign_flip_p`, is exact
    with few operators but ignores dependence in a run.
    """
    operator_means = [row[np.isfinite(row)].mean() for row in differences if np.isfinite(row).any()]
    if len(operator_means) < 2:
        return None
    means, draws = np.array(operator_means), bootstrap_means(differences)
    opposite = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    return min(1.0, max(2 * (opposite + 1) / (len(draws) + 1), sign_flip_p(means)))


def sign_flip_p(means: np.ndarray) -> float:
    """Return how often the mean is as far from 0 if signs are flipped: in all ways, or in SIGN_FLIPS random ones if there are more."""
    from scipy import stats

    rng = np.random.default_rng(SEED)
    test = stats.permutation_test(
        (means,), distance_from_zero, permutation_type="samples", alternative="greater", n_resamples=SIGN_FLIPS, vectorized=True, rng=rng
    )
    return float(test.pvalue)


def distance_from_zero(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """Return how far the mean is from 0."""
    distance: np.ndarray = np.abs(values.mean(axis=axis))
    return distance


def holm_adjust(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number by Holm's method: the k-th smallest of n counts n - k + 1 times, and never less than a
    smaller one."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
