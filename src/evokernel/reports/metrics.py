"""Computes the metrics of a run from its tasks and attempts.

Rounds are counted per task from 1, by the task's own attempts: an infrastructure failure uses up a round of the loop but not an attempt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, log
from typing import NamedTuple

from evokernel.core import final_results
from evokernel.core.final_results import FinalResult, FinalResults
from evokernel.core.records import Attempt, Outcome, Task, Usage
from evokernel.core.run import Run
from evokernel.core.state import best_so_far, speed_gain
from evokernel.core.statistics import quantile

FAST_P = (0.5, 1.0, 1.5, 2.0, 4.0)


@dataclass(frozen=True)
class TaskResult:
    """One task with all its attempts. Figures of the best kernel come from its re-evaluation if there is one."""

    task: Task
    attempts: tuple[Attempt, ...]
    reevaluations: FinalResults = field(default_factory=dict)
    other_protocol_results: FinalResults | None = None
    """Outcomes under the other protocol of attempts that the loop's protocol rejected; None if they were not evaluated."""

    @cached_property
    def failed_reevaluations(self) -> tuple[Attempt, ...]:
        """Attempts that passed in the loop but failed the re-evaluation."""
        return tuple(a for a in self.attempts if a.id in final_results.failed_reevaluation(self.reevaluations))

    @cached_property
    def correct_attempts(self) -> tuple[tuple[int, Attempt], ...]:
        """Correct attempts that did not fail the re-evaluation, each with its round."""
        return tuple((number, a) for number, a in enumerate(self.attempts, start=1) if self.is_correct(a))

    def is_correct(self, attempt: Attempt) -> bool:
        """Whether the attempt passed all gates and did not fail the re-evaluation."""
        return attempt.outcome.feasible and attempt not in self.failed_reevaluations

    @property
    def is_compiled(self) -> bool:
        return any(a.outcome.is_compiled for a in self.attempts)

    @property
    def is_solved(self) -> bool:
        return bool(self.correct_attempts)

    @property
    def first_correct(self) -> Attempt | None:
        """The first correct kernel."""
        return self.correct_attempts[0][1] if self.correct_attempts else None

    @property
    def first_correct_round(self) -> int | None:
        """The round of the first correct kernel."""
        return self.correct_attempts[0][0] if self.correct_attempts else None

    @property
    def first_compiled_round(self) -> int | None:
        """The round of the first candidate that compiles."""
        return next((number for number, a in enumerate(self.attempts, start=1) if a.outcome.is_compiled), None)

    @cached_property
    def best(self) -> Attempt | None:
        """The fastest correct kernel; the earlier one of two that do not differ significantly."""
        return final_results.best_surviving(self.attempts, self.reevaluations)

    @property
    def best_reevaluation(self) -> FinalResult | None:
        """The re-evaluation of the best kernel."""
        return self.reevaluations.get(self.best.id) if self.best else None

    @property
    def best_outcome(self) -> Outcome | None:
        """The outcome of the best kernel: its re-evaluation, otherwise its outcome in the loop."""
        return self.best_reevaluation.outcome if self.best_reevaluation else self.best.outcome if self.best else None

    @property
    def original_latency_us(self) -> float | None:
        """The best kernel's latency in the loop, if the re-evaluation differs from it by more than noise; otherwise None."""
        first, second = (outcome.latency_us if outcome else None for outcome in (self.best and self.best.outcome, self.best_outcome))
        if not (self.best and self.best_reevaluation and first and second):
            return None
        return first if speed_gain(self.best_reevaluation.outcome, self.best) else None

    @property
    def gain(self) -> float | None:
        """First correct latency divided by best latency; 1 if no faster kernel was found."""
        if self.first_correct is self.best:
            return 1.0 if self.best_outcome and self.best_outcome.latency_us else None
        first, best = (
            outcome.latency_us if outcome else None for outcome in (self.first_correct and self.first_correct.outcome, self.best_outcome)
        )
        return first / best if first and best else None

    @property
    def speedup(self) -> float | None:
        """Speed-up of the best kernel over its first baseline."""
        return self.best_outcome.speedup if self.best_outcome else None

    @property
    def baseline_us(self) -> float | None:
        """Latency of the best kernel's first baseline."""
        return self.best_outcome.baseline_latency_us() if self.best_outcome else None

    @property
    def floor_us(self) -> float | None:
        """The roofline bound of the best kernel's task on its device: no kernel can be faster."""
        return roofline_us(self.best_outcome) if self.best_outcome else None

    @property
    def bottleneck(self) -> str | None:
        """The resource that limits the best kernel, in one word."""
        return self.best_outcome.profile.bottleneck if self.best_outcome and self.best_outcome.profile else None

    @property
    def failure_counts(self) -> Counter[str]:
        """How often each failure reason occurred."""
        return count_failures(self.attempts)

    @property
    def correct_count(self) -> int:
        """How many attempts are correct."""
        return len(self.correct_attempts)

    def best_latencies(self) -> list[float | None]:
        """Best latency after each attempt; None until a kernel is correct."""
        return [
            best.outcome.latency_us if best else None
            for best in best_so_far(self.attempts, final_results.failed_reevaluation(self.reevaluations))
        ]


class Quartiles(NamedTuple):
    """The median and the lower and upper quartiles of some figures."""

    low: float
    median: float
    high: float


def roofline_us(outcome: Outcome) -> float | None:
    """Time of the task's operations and bytes at the device's peak rates, if the profile has it."""
    figures = outcome.profile.figures if outcome.profile else {}
    return figures.get("roofline_us")


class BaselineComparison(NamedTuple):
    """A baseline, and the speed-up of a kernel over it."""

    name: str
    us: float
    speedup: float


def fastest_baseline(outcome: Outcome) -> BaselineComparison | None:
    """Return the fastest baseline; None if the kernel or all baselines have no time."""
    latencies = {name: base for name in outcome.baseline_us if (base := outcome.baseline_latency_us(name))}
    if not latencies or not outcome.latency_us:
        return None
    name = min(latencies, key=lambda one: latencies[one])
    return BaselineComparison(name, latencies[name], latencies[name] / outcome.latency_us)


def collect_results(run: Run, attempts: Iterable[Attempt]) -> list[TaskResult]:
    """Group a run's attempts by task, with the re-evaluations of its best kernels."""
    return group_by_task(run.tasks, attempts, final_results.read_final_results(run.folder))


def group_by_task(tasks: Sequence[Task], attempts: Iterable[Attempt], reevaluations: FinalResults | None = None) -> list[TaskResult]:
    """Group attempts by task, in the order of the tasks; a task without attempts is included."""
    attempts_by_task: dict[str, list[Attempt]] = {task.id: [] for task in tasks}
    for attempt in attempts:
        if attempt.task in attempts_by_task:
            attempts_by_task[attempt.task].append(attempt)
    finals_by_task: dict[str, dict[str, FinalResult]] = {task.id: {} for task in tasks}
    for name, final in (reevaluations or {}).items():
        if final.task in finals_by_task:
            finals_by_task[final.task][name] = final
    return [TaskResult(task, tuple(attempts_by_task[task.id]), finals_by_task[task.id]) for task in tasks]


def count_compiled(results: Sequence[TaskResult], rounds: int | None = None) -> int:
    """Count tasks with a candidate that compiles, within the first `rounds` attempts (CR times tasks)."""
    return sum(any(a.outcome.is_compiled for a in result.attempts[:rounds]) for result in results)


def count_correct(results: Sequence[TaskResult], rounds: int | None = None) -> int:
    """Count tasks with a correct candidate, within the first `rounds` attempts (Acc times tasks)."""
    return sum(any(result.is_correct(a) for a in result.attempts[:rounds]) for result in results)


def cumulative_counts(results: Sequence[TaskResult]) -> list[tuple[int, int, int]]:
    """Return for each round: its number, tasks compiled so far, tasks correct so far."""
    longest = max((len(result.attempts) for result in results), default=0)
    compiled, correct = (
        Counter(rounds) for rounds in ([one.first_compiled_round for one in results], [one.first_correct_round for one in results])
    )
    path, so_far = [], (0, 0)
    for number in range(1, longest + 1):
        so_far = (so_far[0] + compiled[number], so_far[1] + correct[number])
        path.append((number, *so_far))
    return path


def list_gains(results: Sequence[TaskResult]) -> list[float]:
    """Return the gain from first correct to best kernel of every solved task that was timed."""
    return [result.gain for result in results if result.gain is not None]


def list_speedups(results: Sequence[TaskResult]) -> list[float]:
    """Return the speed-up of the best kernel over its baseline for every solved task that was timed."""
    return [result.speedup for result in results if result.speedup is not None]


def quartiles(values: Sequence[float]) -> Quartiles | None:
    """Return the quartiles of the values; None without values."""
    if not values:
        return None
    return Quartiles(*(quantile(tuple(values), q) for q in (0.25, 0.5, 0.75)))


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean; None without values."""
    return exp(sum(log(value) for value in values) / len(values)) if values else None


def fast_p_share(results: Sequence[TaskResult], p: float, over: str = "all") -> float | None:
    """Share of tasks whose best kernel is more than p times as fast as the baseline, over `all` tasks or the `correct` ones."""
    base = len(results) if over == "all" else sum(result.is_solved for result in results)
    return sum(value > p for value in list_speedups(results)) / base if base else None


def count_failures(attempts: Iterable[Attempt]) -> Counter[str]:
    """Count how often each reason ended an attempt."""
    return Counter(a.outcome.failure.reason or a.outcome.failure.gate for a in attempts if a.outcome.failure)


def count_failures_by_round(results: Sequence[TaskResult]) -> list[Counter[str]]:
    """Count failure reasons for each round."""
    longest = max((len(result.attempts) for result in results), default=0)
    return [count_failures(r.attempts[n] for r in results if n < len(r.attempts)) for n in range(longest)]


def total_usage(attempts: Iterable[Attempt]) -> Usage:
    """Sum the usage of all model calls; a figure that one call did not report is None."""
    total = Usage()
    for attempt in attempts:
        total = total + attempt.usage
    return total


def elapsed_s(attempts: Sequence[Attempt]) -> float | None:
    """Seconds between the first and the last finished attempt; None if no times were recorded."""
    times = [a.finished_at for a in attempts if a.finished_at > 0]
    return max(times) - min(times) if len(times) > 1 else None


def clock_names(attempts: Iterable[Attempt]) -> set[str]:
    """Return the clocks that timed the attempts."""
    return {a.outcome.clock for a in attempts if a.outcome.clock}


def protocol_names(attempts: Iterable[Attempt]) -> set[str]:
    """Return the protocols that the verifier used."""
    return {attempt.outcome.protocol for attempt in attempts} - {""}


def list_skipped_checks(attempts: Iterable[Attempt]) -> list[str]:
    """Return the checks that the verifier skipped in some of the attempts."""
    return sorted({text for attempt in attempts for text in attempt.outcome.skipped_checks})


def baseline_names(results: Iterable[TaskResult]) -> set[str]:
    """Return the baselines of the best kernels; several if outcomes differ in their baseline."""
    return {result.best_outcome.baseline_name for result in results if result.best_outcome and result.best_outcome.baseline_name}


def task_category(task: Task) -> str:
    """Return the task's category, or its family if it has none."""
    return task.category or task.family


def group_by_category(results: Sequence[TaskResult]) -> Mapping[str, list[TaskResult]]:
    """Group results by category, in alphabetical order."""
    names = sorted({task_category(result.task) for result in results})
    return {name: [result for result in results if task_category(result.task) == name] for name in names}


def q_value_paths(attempts: Iterable[Attempt]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return for each memory item and stage: the attempts of the run that showed it (from 1), and its Q at that time."""
    paths: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for number, attempt in enumerate(attempts, start=1):
        for ref in attempt.shown_items:
            if ref.q is not None:
                paths.setdefault((ref.id, attempt.stage.value), []).append((number, ref.q))
    return paths
