"""Measures of a search on one operator: the curve of its best kernel over attempts and over verification seconds, and its diversity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, combinations
from math import log

from evokernel.core import final_results
from evokernel.core.code_text import code_ngrams, jaccard_similarity
from evokernel.core.state import best_so_far
from evokernel.experiments.metrics import ResultsBySeed
from evokernel.reports import round_stats
from evokernel.reports.metrics import TaskResult


@dataclass(frozen=True)
class SharedBudget:
    """What all arms get on an operator, so that their curves can be compared."""

    attempts: int
    """Attempts on each operator."""
    floors: Mapping[str, float]
    """By operator: the log speed-up that counts before the first correct kernel. It is that of the slowest correct kernel of any arm, so
    that a correct kernel is never worse than none. An operator that no arm solved is missing."""
    seconds: Mapping[str, float]
    """By operator: the least verification time that any arm and seed spent on it; all curves are cut there."""

    def mean_over_attempts(self, result: TaskResult) -> float | None:
        """Return the area under the curve of the best kernel: the mean, over all attempts, of its log speed-up over the baseline."""
        if (floor := self.floors.get(result.task.id)) is None:
            return None
        curve = with_floor(best_log_speedups(result), floor)[: self.attempts]
        last = curve[-1] if curve else floor
        return (sum(curve) + last * (self.attempts - len(curve))) / self.attempts

    def mean_over_seconds(self, result: TaskResult) -> float | None:
        """Return the area under the same curve over the verification seconds that all arms have: a kernel counts when it is verified."""
        floor, limit_s = self.floors.get(result.task.id), self.seconds.get(result.task.id)
        if floor is None or not limit_s:
            return None
        curve = with_floor(best_log_speedups(result), floor)
        area, start_s, value = 0.0, 0.0, floor
        for end_s, new_value in zip(finish_times_s(result), curve, strict=True):
            if end_s > limit_s:
                break
            area += value * (end_s - start_s)
            start_s, value = end_s, new_value
        return (area + value * (limit_s - start_s)) / limit_s

    def final_log_speedup(self, result: TaskResult) -> float | None:
        """Return the log speed-up of the best kernel after all attempts; without one, that of the slowest correct kernel of any arm."""
        if (floor := self.floors.get(result.task.id)) is None:
            return None
        return with_floor(best_log_speedups(result), floor)[-1] if result.attempts else floor

    def share_within_seconds(self, result: TaskResult) -> float | None:
        """Return the share of the attempts that lie within the verification seconds that all arms have."""
        if not (limit_s := self.seconds.get(result.task.id)) or not result.attempts:
            return None
        return sum(end_s <= limit_s for end_s in finish_times_s(result)) / len(result.attempts)


def share_budget(arms: Iterable[ResultsBySeed], attempts: int) -> SharedBudget:
    """Return the budget that all these arms and seeds have in common."""
    floors: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for result in (result for seeds in arms for results in seeds.values() for result in results):
        id = result.task.id
        for value in (value for _, attempt in result.correct_attempts if (value := log_speedup(attempt.outcome.speedup)) is not None):
            floors[id] = min(value, floors.get(id, value))
        spent_s = verification_s(result) or 0.0
        seconds[id] = min(spent_s, seconds.get(id, spent_s))
    return SharedBudget(attempts, floors, seconds)


def log_speedup(speedup: float | None) -> float | None:
    """Return the logarithm of a speed-up; None without one."""
    return log(speedup) if speedup else None


def best_log_speedups(result: TaskResult) -> list[float | None]:
    """Return the log speed-up of the best kernel over the first baseline after each attempt; None until a kernel is correct."""
    bests = best_so_far(result.attempts, final_results.failed_reevaluation(result.reevaluations))
    return [log_speedup(best.outcome.speedup) if best else None for best in bests]


def with_floor(curve: Iterable[float | None], floor: float) -> list[float]:
    """Return a curve with the floor where there is no correct kernel yet."""
    return [floor if value is None else value for value in curve]


def attempt_seconds(result: TaskResult) -> list[float]:
    """Return the verification seconds of each attempt; 0 for a kernel that an earlier attempt on the operator had already.

    The outcome of another run counts as if its kernel had been verified again: only the experiment saved that time, not the strategy.
    """
    seconds, known = [], set[str]()
    for attempt in result.attempts:
        is_repeated = bool(attempt.outcome.reused_from) and attempt.candidate.id in known
        seconds.append(0.0 if is_repeated else round_stats.verification_s(attempt))
        known.add(attempt.candidate.id)
    return seconds


def finish_times_s(result: TaskResult) -> list[float]:
    """Return the verification seconds spent on the operator until the end of each attempt."""
    return list(accumulate(attempt_seconds(result)))


def verification_s(result: TaskResult) -> float | None:
    """Return the verification seconds of all attempts; None if none were recorded."""
    return sum(attempt_seconds(result)) or None


def kernel_distance(result: TaskResult) -> float | None:
    """Return the diversity of the correct kernels: the mean distance of all pairs; None with fewer than two.

    The distance is the share of token sequences that two kernels do not have in common: 0 for equal code, 1 for nothing in common.
    """
    ngrams = [code_ngrams(attempt.candidate.code) for _, attempt in result.correct_attempts]
    distances = [1 - jaccard_similarity(one, other) for one, other in combinations(ngrams, 2)]
    return sum(distances) / len(distances) if distances else None
