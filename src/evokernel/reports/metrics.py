"""What attempts amount to: functions of tasks and attempts, nothing else.

A task's rounds are counted by its own attempts, from 1: infrastructure trouble costs a round of the loop, never a try.
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
from evokernel.core.statistics import best_so_far, quantile, speed_gain

FAST_P = (0.5, 1.0, 1.5, 2.0, 4.0)


@dataclass(frozen=True)
class Tried:
    """One task and everything that was tried on it. Figures of the best kernel are those of its second judgement where there was one."""

    task: Task
    attempts: tuple[Attempt, ...]
    finals: FinalResults = field(default_factory=dict)
    others: FinalResults | None = None
    """What a looser protocol says of attempts that the loop's refused; None where nobody asked."""

    @cached_property
    def fallen(self) -> tuple[Attempt, ...]:
        """Bests that did not hold up when they were judged again."""
        return tuple(a for a in self.attempts if a.id in final_results.failed_reevaluation(self.finals))

    @cached_property
    def correct(self) -> tuple[tuple[int, Attempt], ...]:
        """Feasible attempts, as far as they hold up, with the round each was made in."""
        return tuple((number, a) for number, a in enumerate(self.attempts, start=1) if self.is_correct(a))

    def is_correct(self, attempt: Attempt) -> bool:
        return attempt.outcome.feasible and attempt not in self.fallen

    @property
    def compiled(self) -> bool:
        return any(a.outcome.is_compiled for a in self.attempts)

    @property
    def solved(self) -> bool:
        return bool(self.correct)

    @property
    def first(self) -> Attempt | None:
        """The first correct kernel."""
        return self.correct[0][1] if self.correct else None

    @property
    def first_round(self) -> int | None:
        return self.correct[0][0] if self.correct else None

    @property
    def first_built(self) -> int | None:
        """The round of the first candidate that compiles."""
        return next((number for number, a in enumerate(self.attempts, start=1) if a.outcome.is_compiled), None)

    @cached_property
    def best(self) -> Attempt | None:
        """The fastest correct kernel; the earlier one where two cannot be told apart."""
        return final_results.best_surviving(self.attempts, self.finals)

    @property
    def final(self) -> FinalResult | None:
        """The best kernel's second judgement."""
        return self.finals.get(self.best.id) if self.best else None

    @property
    def outcome(self) -> Outcome | None:
        """What is known about the best kernel."""
        return self.final.outcome if self.final else self.best.outcome if self.best else None

    @property
    def moved_us(self) -> float | None:
        """The best kernel's first latency, where the second one is another by more than noise."""
        first, second = (found.latency_us if found else None for found in (self.best and self.best.outcome, self.outcome))
        return first if self.best and self.final and first and second and speed_gain(self.final.outcome, self.best) else None

    @property
    def gain(self) -> float | None:
        """First correct latency over best latency; 1 when nothing faster was found."""
        if self.first is self.best:
            return 1.0 if self.outcome and self.outcome.latency_us else None
        first, best = (found.latency_us if found else None for found in (self.first and self.first.outcome, self.outcome))
        return first / best if first and best else None

    @property
    def speedup(self) -> float | None:
        """Of the best kernel over its first baseline, found beside it."""
        return self.outcome.speedup if self.outcome else None

    @property
    def baseline_us(self) -> float | None:
        """What the best kernel is held against."""
        return self.outcome.baseline_latency_us() if self.outcome else None

    @property
    def floor_us(self) -> float | None:
        """Of the best kernel's task on its device."""
        return floor_us(self.outcome) if self.outcome else None

    @property
    def bottleneck(self) -> str | None:
        """What bounds the best kernel, in one word."""
        return self.outcome.profile.bottleneck if self.outcome and self.outcome.profile else None

    @property
    def failures(self) -> Counter[str]:
        return failures(self.attempts)

    @property
    def gates_passed(self) -> int:
        """How many attempts got through every gate."""
        return len(self.correct)

    def trajectory(self) -> list[float | None]:
        """Best latency after each round; None until something is correct."""
        return [
            best.outcome.latency_us if best else None for best in best_so_far(self.attempts, final_results.failed_reevaluation(self.finals))
        ]


class Spread(NamedTuple):
    """The middle and the middle half of some figures."""

    low: float
    median: float
    high: float


def floor_us(outcome: Outcome) -> float | None:
    """What the task's counted work takes at the device's ceilings, as far as the profile tells."""
    figures = outcome.profile.figures if outcome.profile else {}
    return figures.get("roofline_us")


def of_run(run: Run, attempts: Iterable[Attempt]) -> list[Tried]:
    """A run's attempts by task, with what was found when its bests were judged again."""
    return by_task(run.tasks, attempts, final_results.read_final_results(run.folder))


def by_task(tasks: Sequence[Task], attempts: Iterable[Attempt], judged_again: FinalResults | None = None) -> list[Tried]:
    """Attempts by task, in the tasks' order; a task without attempts is there too."""
    made: dict[str, list[Attempt]] = {task.id: [] for task in tasks}
    for attempt in attempts:
        if attempt.task in made:
            made[attempt.task].append(attempt)
    again: dict[str, dict[str, FinalResult]] = {task.id: {} for task in tasks}
    for name, final in (judged_again or {}).items():
        if final.task in again:
            again[final.task][name] = final
    return [Tried(task, tuple(made[task.id]), again[task.id]) for task in tasks]


def compiled(found: Sequence[Tried], rounds: int | None = None) -> int:
    """Tasks with at least one candidate that compiles, within so many rounds (CR times tasks)."""
    return sum(any(a.outcome.is_compiled for a in tried.attempts[:rounds]) for tried in found)


def feasible(found: Sequence[Tried], rounds: int | None = None) -> int:
    """Tasks with at least one feasible candidate, within so many rounds (Acc times tasks)."""
    return sum(any(tried.is_correct(a) for a in tried.attempts[:rounds]) for tried in found)


def curve(found: Sequence[Tried]) -> list[tuple[int, int, int]]:
    """Round, tasks compiled so far, tasks correct so far."""
    longest = max((len(tried.attempts) for tried in found), default=0)
    built, right = (Counter(numbers) for numbers in ([t.first_built for t in found], [t.first_round for t in found]))
    path, so_far = [], (0, 0)
    for number in range(1, longest + 1):
        so_far = (so_far[0] + built[number], so_far[1] + right[number])
        path.append((number, *so_far))
    return path


def gains(found: Sequence[Tried]) -> list[float]:
    """First correct over best, of every solved task that was timed."""
    return [tried.gain for tried in found if tried.gain is not None]


def speedups(found: Sequence[Tried]) -> list[float]:
    """Best kernel over its baseline, of every solved task that was timed."""
    return [tried.speedup for tried in found if tried.speedup is not None]


def spread(values: Sequence[float]) -> Spread | None:
    """Quartiles; None without values."""
    if not values:
        return None
    return Spread(*(quantile(tuple(values), q) for q in (0.25, 0.5, 0.75)))


def geomean(values: Sequence[float]) -> float | None:
    """The geometric mean; None without values."""
    return exp(sum(log(value) for value in values) / len(values)) if values else None


def fast_p(found: Sequence[Tried], p: float, over: str = "all") -> float | None:
    """Share of tasks solved more than p times as fast as the baseline: over `all` tasks, or over the `correct` ones."""
    base = len(found) if over == "all" else sum(tried.solved for tried in found)
    return sum(value > p for value in speedups(found)) / base if base else None


def failures(attempts: Iterable[Attempt]) -> Counter[str]:
    """How often each reason ended an attempt."""
    return Counter(a.outcome.failure.reason or a.outcome.failure.gate for a in attempts if a.outcome.failure)


def failures_by_round(found: Sequence[Tried]) -> list[Counter[str]]:
    """The same, for each round."""
    longest = max((len(tried.attempts) for tried in found), default=0)
    return [failures(r.attempts[n] for r in found if n < len(r.attempts)) for n in range(longest)]


def usage(attempts: Iterable[Attempt]) -> Usage:
    """All model calls together; a figure that one of them left out is None."""
    total = Usage()
    for attempt in attempts:
        total = total + attempt.usage
    return total


def span_s(attempts: Sequence[Attempt]) -> float | None:
    """Seconds between the first and the last finished attempt; None when no clock was kept."""
    times = [a.finished_at for a in attempts if a.finished_at > 0]
    return max(times) - min(times) if len(times) > 1 else None


def clocks(attempts: Iterable[Attempt]) -> set[str]:
    """The clocks that timed them."""
    return {a.outcome.clock for a in attempts if a.outcome.clock}


def protocols(attempts: Iterable[Attempt]) -> set[str]:
    """By which protocols kernels were judged; earlier journals do not say."""
    return {attempt.outcome.protocol for attempt in attempts} - {""}


def lacking(attempts: Iterable[Attempt]) -> list[str]:
    """What some of the verdicts had to do without on their machine."""
    return sorted({text for attempt in attempts for text in attempt.outcome.skipped_checks})


def baselines(found: Iterable[Tried]) -> set[str]:
    """What the best kernels are held against; more than one when the run's verdicts differ in that."""
    return {tried.outcome.baseline_name for tried in found if tried.outcome and tried.outcome.baseline_name}


def category(task: Task) -> str:
    """What a task is counted under; runs from before categories have families only."""
    return task.category or task.family


def categories(found: Sequence[Tried]) -> Mapping[str, list[Tried]]:
    """Tasks by category, categories in alphabetical order."""
    names = sorted({category(tried.task) for tried in found})
    return {name: [tried for tried in found if category(tried.task) == name] for name in names}


def shown_values(attempts: Iterable[Attempt]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Per memory item and stage: which attempt of the run it was shown in, and its Q at that moment."""
    paths: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for number, attempt in enumerate(attempts, start=1):
        for ref in attempt.shown_items:
            if ref.q is not None:
                paths.setdefault((ref.id, attempt.stage.value), []).append((number, ref.q))
    return paths
