"""What has happened so far in a run, and the plain lines that tell it as it happens."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

from evokernel.cli.output import printable
from evokernel.core.config import RunConfig
from evokernel.core.final_results import FinalResult
from evokernel.core.records import Attempt, Task, Usage
from evokernel.core.statistics import is_faster, speed_gain
from evokernel.reports import formatting
from evokernel.reports.tables import short_names


@dataclass
class Line:
    """One task's state as a display shows it."""

    name: str
    done: int = 0
    stage: str = "draft"
    phase: str = ""
    since: float = 0.0
    made: bool = False
    """Its attempt is made, and waits to be learned from in its turn."""
    best: Attempt | None = None
    compiled: bool = False
    failure: str = ""

    def add(self, attempt: Attempt) -> None:
        """Takes in a finished attempt."""
        outcome = attempt.outcome
        self.done += 1
        self.made = False
        self.compiled = self.compiled or outcome.is_compiled
        self.failure = outcome.failure.reason if outcome.failure else ""
        if is_faster(attempt, self.best):
            self.best = attempt
        self.stage = "refine" if self.best else "draft"


@dataclass
class Progress:
    """Counts attempts as they come in; phases arrive from other threads."""

    tasks: Sequence[Task]
    config: RunConfig
    recorded: int = 0
    """Attempts that an earlier session made: they count, but say nothing about this session's pace."""
    started: float = field(default_factory=time.monotonic)
    total: int = 0
    done: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    usage: Usage = Usage()
    lines: dict[str, Line] = field(default_factory=dict)
    notice: str = ""

    def __post_init__(self) -> None:
        names = short_names([task.id for task in self.tasks])
        self.total = len(self.tasks) * self.config.budget
        self.lines = {task.id: Line(names[task.id]) for task in self.tasks}
        self._guard = threading.Lock()

    def phase(self, task: str, phase: str) -> None:
        """An attempt entered a phase; called from any thread."""
        with self._guard:
            line = self.lines[task]
            line.phase, line.since, line.made = phase, time.monotonic(), not phase

    def add(self, attempt: Attempt) -> Line:
        """An attempt is finished."""
        with self._guard:
            self.done += 1
            self.usage = self.usage + attempt.usage
            if attempt.outcome.failure:
                self.failures[attempt.outcome.failure.reason or attempt.outcome.failure.gate] += 1
            line = self.lines[attempt.task]
            line.add(attempt)
            if attempt.outcome.feasible and self.config.stop_when == "feasible":
                self.total -= max(0, self.config.budget - line.done)
            return line

    def again(self, final: FinalResult) -> str:
        """A best was judged again: what to say of it when it is not as before."""
        best, found = self.lines[final.task].best, final.outcome
        if found.failure:
            return f"{final.attempt} does not hold up: {found.failure.gate} {found.failure.reason}; the next best takes its place"
        if best and best.id == final.attempt and speed_gain(found, best):
            return f"{final.attempt} now takes {formatting.latency(found.latency_us)}, first {formatting.latency(best.outcome.latency_us)}"
        return ""

    @property
    def in_flight(self) -> int:
        return sum(bool(line.phase) for line in self.lines.values())

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started

    @property
    def left_s(self) -> float | None:
        """From this session's rate of attempts; None until there is one."""
        waiting = sum(line.made for line in self.lines.values())
        made = self.done - self.recorded + waiting
        return self.elapsed_s / made * (self.total - self.done - waiting) if made > 0 else None

    @property
    def solved(self) -> int:
        return sum(line.best is not None for line in self.lines.values())

    @property
    def compiled(self) -> int:
        return sum(line.compiled for line in self.lines.values())

    def reasons(self) -> str:
        """Failures so far."""
        return f"failures: {', '.join(f'{reason} {count}' for reason, count in self.failures.most_common()) or 'none'}"

    def spent(self) -> str:
        """Cost so far."""
        return f"cost: {formatting.cost(self.usage)}"

    def times(self, measured: bool = True) -> str:
        """What times are and what speed-ups are over, once there is one; nothing on measured ones unless they are wanted."""
        outcomes = [line.best.outcome for line in self.lines.values() if line.best]
        clocks = [outcome.clock for outcome in outcomes]
        if not any(clocks) or not (measured or formatting.estimate_note(clocks)):
            return ""
        return f"times: {formatting.clock_label(clocks)}, speed-up over {formatting.baseline_label(outcome.baseline_name for outcome in outcomes)}"


class PlainDisplay:
    """One line per attempt, and one at the end of each round."""

    def __init__(self, progress: Progress, stream: TextIO) -> None:
        self.progress, self.stream = progress, stream
        self.width = max((len(line.name) for line in progress.lines.values()), default=0)
        self.round: int | None = None
        self.summary = ""

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *trouble: object) -> None:
        if self.summary and trouble == (None, None, None):
            self.say(self.summary)

    def show(self, attempt: Attempt, line: Line) -> None:
        """Tells one attempt."""
        progress = self.progress
        turn = attempt.round if progress.config.schedule == "rounds" else (progress.done - 1) // len(progress.lines)
        if self.summary and turn != self.round:
            self.say(self.summary)
        self.round = turn
        count = f"[{progress.done:>{len(str(progress.total))}}/{progress.total}]"
        self.say(f"{count} {line.name.ljust(self.width)}  {attempt.stage.value.ljust(6)}  {verdict(attempt, line)}")
        self.summary = self.end_of_round()  # as of the round's last attempt, told when the next round's first comes in

    def end_of_round(self) -> str:
        """How far the whole run is."""
        progress, count = self.progress, len(self.progress.lines)
        left = f", about {formatting.duration(progress.left_s)} left" if progress.left_s and progress.done < progress.total else ""
        return (
            f"-- round {(self.round or 0) + 1}: {progress.compiled} of {count} compiled, {progress.solved} of {count} correct; "
            f"{progress.reasons()}; {progress.spent()}; {formatting.duration(progress.elapsed_s)} elapsed{left}"
            + (f"; {told}" if (told := progress.times(measured=False)) else "")
        )

    def say(self, text: str) -> None:
        self.stream.write(printable(text) + "\n")
        self.stream.flush()

    def note(self, text: str) -> None:
        """Tells something between attempts."""
        if self.summary:
            self.say(self.summary)
            self.summary = ""
        self.say(text)

    def interrupt(self, text: str) -> None:
        """Safe inside a signal handler, where the stream may be in the middle of a write."""
        os.write(2, f"{text}\n".encode())


def verdict(attempt: Attempt, line: Line) -> str:
    """`ok   412 µs  1.80× (best 398 µs)` or `fail check mismatch: …`."""
    outcome = attempt.outcome
    if failure := outcome.failure:
        said = formatting.first_line(failure.detail)
        return f"fail {failure.gate} {failure.reason}" + (f": {said}" if said and said != failure.reason else "")
    best = line.best.outcome.latency_us if line.best else None
    label = formatting.estimate_note([outcome.clock])
    ending = f"best {formatting.latency(best)}{', ' if label else ''}{label}"
    return f"ok   {formatting.latency(outcome.latency_us).rjust(7)}  {formatting.ratio(outcome.speedup).rjust(5)} ({ending})"
