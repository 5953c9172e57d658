"""Statistics of samples: quantiles, confidence intervals of medians, and their significance."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import TypeVar

MIN_PAIRED_GAIN = 0.01
"""Smallest significant relative difference of alternately measured latencies: restarting a process changes the same kernel's latency by up
to this much."""
TAIL_PROBABILITY = 0.025
Amount = TypeVar("Amount", int, float)


def sum_if_known(a: Amount | None, b: Amount | None) -> Amount | None:
    """Return a + b, or None if either is None."""
    return None if a is None or b is None else a + b


def quantile(samples: Sequence[float], q: float) -> float:
    """Return the q-quantile with linear interpolation. Latencies use the lower quartile, which is robust to preemption (docs/adr)."""
    ascending = sorted(samples)
    position = q * (len(ascending) - 1)
    low = int(position)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (position - low) * (ascending[high] - ascending[low])


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the distribution-free 95 % confidence interval of the median; None for fewer than six values."""
    ascending, tail, rank = sorted(values), 0.0, 0
    while rank <= len(ascending) // 2:
        tail += comb(len(ascending), rank) / 2 ** len(ascending)
        if tail > TAIL_PROBABILITY:
            break
        rank += 1
    return (ascending[rank - 1], ascending[len(ascending) - rank]) if rank else None


def is_significant(interval: tuple[float, float], margin: float = MIN_PAIRED_GAIN) -> bool:
    """Return whether a confidence interval of speedups excludes 1 by more than the margin."""
    return interval[0] > 1 + margin or interval[1] < 1 - margin
