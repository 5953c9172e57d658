"""What samples tell: quantiles, the interval around a median, and whether one kernel is faster than another at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import comb, hypot, log
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from evokernel.core.records import Attempt, Outcome

LEAST_NOISE = 0.02
"""Between latencies that were not taken side by side: less cannot be told from chance on any machine we measured."""
LEAST_PAIRED = 0.01
"""Between latencies taken in turn: what starting the same kernel in another process can change by itself."""
TAIL = 0.025
HOPED_FOR, LATEST = 0.3, 0.3
"""What a first refinement is expected to gain, and the weight of the latest one among those that were made."""
Amount = TypeVar("Amount", int, float)


def sum_if_known(a: Amount | None, b: Amount | None) -> Amount | None:
    """a + b, or None when either is not known."""
    return None if a is None or b is None else a + b


def quantile(samples: Sequence[float], q: float) -> float:
    """The q-quantile with linear interpolation; the lower quartile is what survives preemption (docs/adr)."""
    ordered = sorted(samples)
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Two of the values between which the median lies with 95 % confidence, however they are distributed; None for fewer than six."""
    ordered, tail, rank = sorted(values), 0.0, 0
    while rank <= len(ordered) // 2:
        tail += comb(len(ordered), rank) / 2 ** len(ordered)
        if tail > TAIL:
            break
        rank += 1
    return (ordered[rank - 1], ordered[len(ordered) - rank]) if rank else None


def is_significant(interval: tuple[float, float], by: float = LEAST_PAIRED) -> bool:
    """Whether an interval of ratios excludes 1, and by more than chance between two starts."""
    return interval[0] > 1 + by or interval[1] < 1 - by


def speed_gain(outcome: Outcome, best: Attempt) -> float:
    """The logarithm of how many times as fast as the best a feasible kernel is; 0 where the two cannot be told apart.

    Times taken in turn with the best decide by their interval. Without such pairs, latencies must differ by more than their noise;
    exact ones, a single sample each, need not.
    """
    if outcome.incumbent == best.candidate.id and (interval := outcome.speedup_interval("incumbent")):
        return log(outcome.median_speedup("incumbent") or 1.0) if is_significant(interval) else 0.0
    own, before = outcome.latency_us, best.outcome.latency_us
    if not own or not before:
        return 0.0
    found = log(before) - log(own)
    if len(outcome.samples_us) == len(best.outcome.samples_us) == 1:
        return found
    return found if abs(found) > max(LEAST_NOISE, hypot(outcome.noise or 0.0, best.outcome.noise or 0.0)) else 0.0


def expected_gain(attempts: Iterable[Attempt]) -> float:
    """What refining a task once more promises: the gains so far, of which the latest count most. HOPED_FOR while there are none."""
    hope = HOPED_FOR
    for attempt in attempts:
        if attempt.stage == "refine":
            hope += LATEST * (max(0.0, attempt.reward) - hope)
    return hope


def is_faster(attempt: Attempt, best: Attempt | None) -> bool:
    """Whether an attempt takes the place of the best one so far; a kernel does not beat itself."""
    if not attempt.outcome.feasible:
        return False
    if best is None:
        return True
    if not best.outcome.latency_us:
        return bool(attempt.outcome.latency_us)
    return attempt.candidate.files != best.candidate.files and speed_gain(attempt.outcome, best) > 0


def best_so_far(attempts: Iterable[Attempt], without: Collection[str] = ()) -> list[Attempt | None]:
    """The best kernel after each attempt; None until one is feasible. Those in `without` never count."""
    best: Attempt | None = None
    found = []
    for attempt in attempts:
        best = attempt if attempt.id not in without and is_faster(attempt, best) else best
        found.append(best)
    return found
