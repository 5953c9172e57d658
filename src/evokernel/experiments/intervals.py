"""How sure a mean over operators and seeds is: bootstrap intervals, for one arm and for two that are compared operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import NamedTuple

import numpy as np

from evokernel.reports.metrics import Tried

DRAWS, SHARE, SEED, FLIPS = 2000, 0.95, 0, 9999
Grid = np.ndarray
"""Operators × seeds; NaN where there is no figure."""


class Interval(NamedTuple):
    """A mean, and between what it lies with 95 % confidence."""

    low: float
    mean: float
    high: float
    figures: int
    """How many figures are behind it."""

    def exp(self) -> Interval:
        """Of geometric means, where logarithms were averaged."""
        return Interval(exp(self.low), exp(self.mean), exp(self.high), self.figures)


def grid(found: Mapping[int, Sequence[Tried]], figure: Callable[[Tried], float | None]) -> Grid:
    """A figure of every operator under every seed."""
    columns = [[np.nan if (value := figure(tried)) is None else value for tried in found[seed]] for seed in sorted(found)]
    return np.array(columns, dtype=np.float64).T


def interval(values: Grid) -> Interval | None:
    """Of the mean; operators and seeds are drawn again, with replacement, each on its own. None without a figure.

    Seeds matter as such: operators of one run share its memory and are not independent.
    """
    if not (known := np.isfinite(values)).any():
        return None
    low, high = np.quantile(drawn(values), [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return Interval(float(low), float(values[known].mean()), float(high), int(known.sum()))


def drawn(values: Grid) -> np.ndarray:
    """Means of operators and seeds drawn again."""
    known = np.isfinite(values)
    random = np.random.default_rng(SEED)
    operators, seeds = values.shape
    rows = random.integers(0, operators, (DRAWS, operators))
    columns = random.integers(0, seeds, (DRAWS, seeds))
    at = (rows[:, :, None], columns[:, None, :])
    counts = known[at].sum(axis=(1, 2))
    sums = np.where(known, values, 0.0)[at].sum(axis=(1, 2))
    means: np.ndarray = sums[counts > 0] / counts[counts > 0]
    return means


def share_interval(values: Grid) -> Interval | None:
    """Of figures that are 0 or 1. Where all are alike nothing can be drawn that differs: then Clopper and Pearson's, over operators."""
    found = interval(values)
    if found is None or found.low < found.high or found.mean not in (0.0, 1.0):
        return found
    least = ((1 - SHARE) / 2) ** (1 / int(np.isfinite(values).any(axis=1).sum()))
    return found._replace(low=least) if found.mean else found._replace(high=1 - least)


def difference(one: Grid, other: Grid) -> Interval | None:
    """How much the mean of `one` lies above that of `other`, pair by pair: only operators and seeds that have a figure in both count."""
    return interval(one - other)


def chance(differences: Grid) -> float | None:
    """How likely chance alone gives such a difference: the larger of two answers; None below two operators.

    By operators and seeds drawn again, how often it is none or has the other sign, both sides counted: that knows, as `interval` does, that
    operators of one run share its memory, but believes too much of few operators. And by changing the signs of operators' differences,
    how often their mean is as far from 0: that is exact for few operators, but knows nothing of runs.
    """
    known = [row[np.isfinite(row)].mean() for row in differences if np.isfinite(row).any()]
    if len(known) < 2:
        return None
    means, draws = np.array(known), drawn(differences)
    beyond = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    signs = np.random.default_rng(SEED).choice([-1.0, 1.0], (FLIPS, len(means)))
    as_far = int((np.abs((signs * means).mean(axis=1)) >= abs(means.mean()) - 1e-12).sum())
    return min(1.0, max(2 * (beyond + 1) / (len(draws) + 1), (as_far + 1) / (FLIPS + 1)))
