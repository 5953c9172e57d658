"""The progress of a run, for every display: on a terminal, as plain lines, in a notebook."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from evokernel.app.run_lifecycle import ReevaluationStart, RunRecord
from evokernel.core.config import RunConfig
from evokernel.core.final_results import FinalResult
from evokernel.core.labels import format_count
from evokernel.core.records import Attempt, Task, Usage
from evokernel.core.state import is_faster, speed_gain
from evokernel.reports import formatting
from evokernel.reports.tables import shorten_task_names

MAX_NAMED_TASKS = 3
"""Tasks in flight that a line of progress names."""


@dataclass
class TaskProgress:
    """The state of one task, as a display shows it."""

    name: str
    stage: str = "draft"
    phase: str = ""
    phase_started_at: float = 0.0
    has_pending_result: bool = False
    """The current attempt is verified, but the policy has not learned from it yet."""
    best: Attempt | None = None
    is_compiled: bool = False
    last_failure: str = ""
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def attempt_count(self) -> int:
        """Number of finished attempts."""
        return len(self.attempts)

    def add_attempt(self, attempt: Attempt) -> None:
        """Count a finished attempt."""
        outcome = attempt.outcome
        self.attempts.append(attempt)
        self.has_pending_result = False
        self.is_compiled = self.is_compiled or outcome.is_compiled
        self.last_failure = outcome.failure.reason if outcome.failure else ""
        if is_faster(attempt, self.best):
            self.best = attempt
        self.stage = "refine" if self.best else "draft"


@dataclass
class Progress:
    """Counts finished attempts; other threads report the phases of running ones."""

    tasks: Sequence[Task]
    config: RunConfig
    resumed_attempts: int = 0
    """Attempts of an earlier session: they count, but say nothing about the speed of this session."""
    started_at: float = field(default_factory=time.monotonic)
    total_attempts: int = 0
    finished_attempts: int = 0
    failure_counts: Counter[str] = field(default_factory=Counter)
    usage: Usage = Usage()
    task_progress: dict[str, TaskProgress] = field(default_factory=dict)
    reevaluation_count: int = 0
    """Kernels of the final re-evaluation; 0 before it begins."""
    finished_reevaluations: int = 0
    reevaluation_started_at: float = 0.0
    notice: str = ""

    def __post_init__(self) -> None:
        names = shorten_task_names([task.id for task in self.tasks])
        self.total_attempts = len(self.tasks) * self.config.budget
        self.task_progress = {task.id: TaskProgress(names[task.id]) for task in self.tasks}
        self._guard = threading.Lock()

    def set_phase(self, task: str, phase: str) -> None:
        """Record the phase of a task's current attempt; any thread may call this."""
        with self._guard:
            line = self.task_progress[task]
            line.phase, line.phase_started_at, line.has_pending_result = phase, time.monotonic(), not phase

    def add_attempt(self, attempt: Attempt) -> TaskProgress:
        """Count a finished attempt and return the progress of its task."""
        with self._guard:
            self.finished_attempts += 1
            self.usage = self.usage + attempt.usage
            if attempt.outcome.failure:
                self.failure_counts[attempt.outcome.failure.reason or attempt.outcome.failure.gate] += 1
            line = self.task_progress[attempt.task]
            line.add_attempt(attempt)
            if not self.config.remaining_attempts(line.attempts):
                self.total_attempts -= max(0, self.config.budget - line.attempt_count)
            return line

    def start_reevaluation(self, kernel_count: int) -> None:
        """Note that the attempts are finished and that this many kernels are verified a second time."""
        with self._guard:
            self.reevaluation_count, self.reevaluation_started_at = kernel_count, time.monotonic()

    def add_reevaluation(self) -> None:
        """Count a finished re-evaluation."""
        with self._guard:
            self.finished_reevaluations += 1

    def describe_reevaluation(self, final: FinalResult) -> str:
        """A note if the re-evaluation of a best kernel differs from the first verification, else an empty string."""
        best, outcome = self.task_progress[final.task].best, final.outcome
        if outcome.failure:
            name = formatting.format_attempt(final.attempt)
            return f"{name} failed its re-evaluation ({outcome.failure.gate}: {outcome.failure.reason}); the next best kernel replaces it"
        if best and best.id == final.attempt and speed_gain(outcome, best):
            before, after = formatting.format_latency(best.outcome.latency_us), formatting.format_latency(outcome.latency_us)
            return f"{formatting.format_attempt(final.attempt)} takes {after} in its re-evaluation, {before} before"
        return ""

    @property
    def attempts_in_flight(self) -> int:
        """Number of attempts that are being written or verified."""
        return sum(bool(line.phase) for line in self.task_progress.values())

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start of this session."""
        return time.monotonic() - self.started_at

    @property
    def remaining_s(self) -> float | None:
        """Estimated remaining seconds from the rate of this session, never negative; None before the first attempt or re-evaluation."""
        if self.reevaluation_count:
            return estimate_remaining_s(
                time.monotonic() - self.reevaluation_started_at,
                self.finished_reevaluations,
                self.reevaluation_count - self.finished_reevaluations,
            )
        pending_results = sum(line.has_pending_result for line in self.task_progress.values())
        finished = self.finished_attempts - self.resumed_attempts + pending_results
        return estimate_remaining_s(self.elapsed_s, finished, self.total_attempts - self.finished_attempts - pending_results)

    @property
    def correct_tasks(self) -> int:
        """Number of tasks with a correct kernel."""
        return sum(line.best is not None for line in self.task_progress.values())

    @property
    def compiled_tasks(self) -> int:
        """Number of tasks with a candidate that compiles."""
        return sum(line.is_compiled for line in self.task_progress.values())

    def describe_activity(self) -> str:
        """What the run is doing: `12 s: 3 attempts verified and waiting for their turn; verify softmax 5 s, write matmul 2 s`."""
        with self._guard:
            active = [line for line in self.task_progress.values() if line.phase]
            pending = sum(line.has_pending_result for line in self.task_progress.values())
        now = time.monotonic()
        oldest = sorted(active, key=lambda line: line.phase_started_at)[:MAX_NAMED_TASKS]
        names = [f"{line.phase} {line.name} {now - line.phase_started_at:.0f} s" for line in oldest]
        more = [f"{len(active) - len(names)} more"] if len(active) > len(names) else []
        parts = [
            f"{self.finished_reevaluations} of {self.reevaluation_count} re-evaluated" if self.reevaluation_count else "",
            f"{formatting.format_count(pending, 'attempt')} verified, in the queue for learning" if pending else "",
            ", ".join(names + more),
        ]
        return f"   {formatting.format_duration(self.elapsed_s)}: {'; '.join(filter(None, parts)) or 'starting'}"

    def failure_summary(self) -> str:
        """Failures so far, by reason."""
        return f"failures: {', '.join(f'{reason} {count}' for reason, count in self.failure_counts.most_common()) or 'none'}"

    def cost_summary(self) -> str:
        """Cost so far."""
        return f"cost: {formatting.format_cost(self.usage)}"

    def timing_summary(self, include_measured: bool = True) -> str:
        """The clock and the baseline of the times shown; empty before the first time, and for measured times unless `include_measured`."""
        outcomes = [line.best.outcome for line in self.task_progress.values() if line.best]
        clocks = [outcome.clock for outcome in outcomes]
        if not any(clocks) or not (include_measured or formatting.estimate_note(clocks)):
            return ""
        baseline = formatting.baseline_label(outcome.baseline_name for outcome in outcomes)
        return f"times: {formatting.clock_label(clocks)}, speed relative to {baseline}"


def estimate_remaining_s(elapsed_s: float, finished: int, remaining: int) -> float | None:
    """Remaining seconds at the rate so far, never negative; None if nothing is finished."""
    return elapsed_s / finished * max(0, remaining) if finished > 0 else None


def describe_outcome(attempt: Attempt, line: TaskProgress) -> str:
    """`ok   412 µs  1.80× (best 398 µs)` or `fail check mismatch: …`."""
    outcome = attempt.outcome
    if outcome.reused_from:
        verified = attempt.model_copy(update={"outcome": outcome.model_copy(update={"reused_from": ""})})
        return f"{describe_outcome(verified, line)}; same kernel as {formatting.format_attempt(outcome.reused_from)}, not verified again"
    if failure := outcome.failure:
        detail = formatting.first_line(failure.detail)
        return f"fail {failure.gate} {failure.reason}" + (f": {detail}" if detail and detail != failure.reason else "")
    best = line.best.outcome.latency_us if line.best else None
    label = formatting.estimate_note([outcome.clock])
    note = f"best {formatting.format_latency(best)}{', ' if label else ''}{label}"
    return f"ok   {formatting.format_latency(outcome.latency_us).rjust(7)}  {formatting.format_speed(outcome.speedup).rjust(12)} ({note})"


class AttemptDisplay(Protocol):
    """Shows what a run does, attempt by attempt."""

    def show_attempt(self, attempt: Attempt, line: TaskProgress) -> None: ...

    def show_note(self, text: str) -> None: ...


def show_record(record: RunRecord, progress: Progress, display: AttemptDisplay, recorded_ids: set[str]) -> None:
    """Count a record of a run and show it; attempts of earlier sessions, in `recorded_ids`, only count."""
    if isinstance(record, Attempt):
        task_progress = progress.add_attempt(record)
        if record.id not in recorded_ids:
            display.show_attempt(record, task_progress)
    elif isinstance(record, ReevaluationStart):
        progress.start_reevaluation(record.kernel_count)
        display.show_note(f"Re-evaluating {format_count(record.kernel_count, 'best kernel')}")
    else:
        progress.add_reevaluation()
        if text := progress.describe_reevaluation(record):
            display.show_note(text)
