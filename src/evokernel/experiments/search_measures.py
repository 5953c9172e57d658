"""Measures of a search on one operator: the curve of its best kernel over attempts and over verification seconds, and its diversity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, combinations
from math import log

from evokernel.core import final_results
from evokernel.core.code_text import code_ngrams, jaccard_similarity
from evokernel.core.records import Outcome
from evokernel.core.state import best_so_far
from evokernel.core.statistics import quantile
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
    baselines_us: Mapping[str, float]
    """By operator: the median latency of the baseline, for outcomes in which it was not timed."""
    seconds: Mapping[str, float]
    """By operator: the least verification time that any arm and seed spent on it; all curves are cut there."""

    def mean_over_attempts(self, result: TaskResult) -> float | None:
        """Return the area under the curve of the best kernel: the mean, over all attempts, of its log speed-up over the baseline."""
        if (floor := self.floors.get(result.task.id)) is None:
            return None
        curve = self.best_log_speedups(result, floor)[: self.attempts]
        last = curve[-1] if curve else floor
        return (sum(curve) + last * (self.attempts - len(curve))) / self.attempts

    def mean_over_seconds(self, result: TaskResult) -> float | None:
        """Return the area under the same curve over the verification seconds that all arms have: a kernel counts when it is verified."""
        floor, limit_s = self.floors.get(result.task.id), self.seconds.get(result.task.id)
        if floor is None or not limit_s:
            return None
        curve = self.best_log_speedups(result, floor)
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
        return self.best_log_speedups(result, floor)[-1] if result.attempts else floor

    def best_log_speedups(self, result: TaskResult, floor: float) -> list[float]:
        """Return the log speed-up of the best kernel over the first baseline after each attempt; the floor until a kernel is correct."""
        baseline_us = self.baselines_us.get(result.task.id)
        bests = best_so_far(result.attempts, final_results.failed_reevaluation(result.reevaluations))
        values = [log_speedup(best.outcome, baseline_us) if best else None for best in bests]
        return [floor if value is None else value for value in values]

    def share_within_seconds(self, result: TaskResult) -> float | None:
        """Return the share of the attempts that lie within the verification seconds that all arms have."""
        if not (limit_s := self.seconds.get(result.task.id)) or not result.attempts:
            return None
        return sum(end_s <= limit_s for end_s in finish_times_s(result)) / len(result.attempts)


def share_budget(arms: Iterable[ResultsBySeed], attempts: int) -> SharedBudget:
    """Return the budget that all these arms and seeds have in common."""
    by_task: dict[str, list[TaskResult]] = {}
    for result in (result for seeds in arms for results in seeds.values() for result in results):
        by_task.setdefault(result.task.id, []).append(result)
    baselines = {id: us for id, results in by_task.items() if (us := median_baseline_us(results))}
    floors = {id: floor for id, results in by_task.items() if (floor := slowest_log_speedup(results, baselines.get(id))) is not None}
    seconds = {id: min(verification_s(result) or 0.0 for result in results) for id, results in by_task.items()}
    return SharedBudget(attempts, floors, baselines, seconds)


def median_baseline_us(results: Iterable[TaskResult]) -> float | None:
    """Return the median latency of the first baseline of correct kernels; None if it was never timed."""
    latencies = [us for result in results for _, attempt in result.correct_attempts if (us := attempt.outcome.baseline_latency_us())]
    return quantile(tuple(latencies), 0.5) if latencies else None


def slowest_log_speedup(results: Iterable[TaskResult], baseline_us: float | None) -> float | None:
    """Return the log speed-up of the slowest correct kernel; None without one."""
    values = [log_speedup(attempt.outcome, baseline_us) for result in results for _, attempt in result.correct_attempts]
    return min((value for value in values if value is not None), default=None)


def log_speedup(outcome: Outcome, baseline_us: float | None) -> float | None:
    """Return the log speed-up over the baseline of the same verification, or over `baseline_us` if it was not timed then; None if unknown.

    On a busy machine the baseline may be too slow for one verification and not for the next one of the same kernel.
    """
    base_us = outcome.baseline_latency_us() or baseline_us
    return log(base_us / outcome.latency_us) if base_us and outcome.latency_us else None


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
