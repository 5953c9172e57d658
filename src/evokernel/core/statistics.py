"""Statistics of latency samples: quantiles, confidence intervals of medians, and significance of speed differences."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import comb, hypot, log
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from evokernel.core.records import Attempt, Outcome

MIN_UNPAIRED_GAIN = 0.02
"""Smallest significant relative difference of latencies that were not measured alternately; smaller ones are noise on every machine that
was measured."""
MIN_PAIRED_GAIN = 0.01
"""Smallest significant relative difference of alternately measured latencies: restarting a process changes the same kernel's latency by up
to this much."""
TAIL_PROBABILITY = 0.025
INITIAL_EXPECTED_GAIN, GAIN_SMOOTHING = 0.3, 0.3
"""Gain expected of a first refinement; weight of the latest refinement in the moving average of gains."""
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


def speed_gain(outcome: Outcome, best: Attempt) -> float:
    """Return the logarithm of the speedup of a feasible kernel over the best one; 0 if the difference is not significant.

    If the two kernels were measured alternately, the confidence interval of the paired speedups decides. Otherwise latencies must differ
    by more than their noise, unless both are exact (a single sample each).
    """
    if outcome.incumbent == best.candidate.id and (interval := outcome.speedup_interval("incumbent")):
        return log(outcome.median_speedup("incumbent") or 1.0) if is_significant(interval) else 0.0
    own, before = outcome.latency_us, best.outcome.latency_us
    if not own or not before:
        return 0.0
    gain = log(before) - log(own)
    if len(outcome.samples_us) == len(best.outcome.samples_us) == 1:
        return gain
    return gain if abs(gain) > max(MIN_UNPAIRED_GAIN, hypot(outcome.noise or 0.0, best.outcome.noise or 0.0)) else 0.0


def expected_gain(attempts: Iterable[Attempt]) -> float:
    """Return the gain expected of one more refinement: an exponential moving average of past gains, from INITIAL_EXPECTED_GAIN."""
    expected = INITIAL_EXPECTED_GAIN
    for attempt in attempts:
        if attempt.stage == "refine":
            expected += GAIN_SMOOTHING * (max(0.0, attempt.reward) - expected)
    return expected


def is_faster(attempt: Attempt, best: Attempt | None) -> bool:
    """Return whether an attempt replaces the best one so far; identical code does not."""
    if not attempt.outcome.feasible:
        return False
    if best is None:
        return True
    if not best.outcome.latency_us:
        return bool(attempt.outcome.latency_us)
    return attempt.candidate.files != best.candidate.files and speed_gain(attempt.outcome, best) > 0


def best_so_far(attempts: Iterable[Attempt], excluded: Collection[str] = ()) -> list[Attempt | None]:
    """Return the best kernel after each attempt; None until one is feasible. Attempts with excluded ids never count."""
    best: Attempt | None = None
    bests = []
    for attempt in attempts:
        best = attempt if attempt.id not in excluded and is_faster(attempt, best) else best
        bests.append(best)
    return bests
