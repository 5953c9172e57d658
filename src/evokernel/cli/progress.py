"""The display that prints the progress of a run as plain lines."""

from __future__ import annotations

import os
import threading
from typing import TextIO

from evokernel.app.run_progress import Progress, TaskProgress, describe_outcome
from evokernel.cli.heartbeat import Heartbeat
from evokernel.cli.output import replace_control_characters
from evokernel.core.records import Attempt
from evokernel.reports import formatting


class PlainDisplay:
    """Prints one line per attempt, one at the end of each round, and one whenever there was none for some seconds."""

    def __init__(self, progress: Progress, stream: TextIO, quiet_s: float | None = None) -> None:
        self.progress, self.stream = progress, stream
        self.heartbeat = Heartbeat(progress.describe_activity, self.write_line, quiet_s)
        self.guard = threading.Lock()
        self.width = max((len(line.name) for line in progress.task_progress.values()), default=0)
        self.round: int | None = None
        self.summary = ""

    def __enter__(self) -> PlainDisplay:
        self.heartbeat.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.heartbeat.__exit__(*exc_info)
        if self.summary and exc_info == (None, None, None):
            self.write_line(self.summary)

    def show_attempt(self, attempt: Attempt, line: TaskProgress) -> None:
        """Print one attempt."""
        progress = self.progress
        round_number = (
            attempt.round if progress.config.schedule == "rounds" else (progress.finished_attempts - 1) // len(progress.task_progress)
        )
        if self.summary and round_number != self.round:
            self.write_line(self.summary)
        self.round = round_number
        count = f"[{progress.finished_attempts:>{len(str(progress.total_attempts))}}/{progress.total_attempts}]"
        self.write_line(f"{count} {line.name.ljust(self.width)}  {attempt.stage.value.ljust(6)}  {describe_outcome(attempt, line)}")
        self.summary = self.round_summary()  # printed when the first attempt of the next round arrives

    def round_summary(self) -> str:
        """The state of the run after a round."""
        progress, count = self.progress, len(self.progress.task_progress)
        remaining = (
            f", about {formatting.format_duration(progress.remaining_s)} left"
            if progress.remaining_s and progress.finished_attempts < progress.total_attempts
            else ""
        )
        return (
            f"-- round {(self.round or 0) + 1}: {progress.compiled_tasks} of {count} compiled, "
            f"{progress.correct_tasks} of {count} correct; "
            f"{progress.failure_summary()}; {progress.cost_summary()}; {formatting.format_duration(progress.elapsed_s)} elapsed{remaining}"
            + (f"; {timing}" if (timing := progress.timing_summary(include_measured=False)) else "")
        )

    def write_line(self, text: str) -> None:
        """Write one line and flush; any thread may call this."""
        with self.guard:
            self.stream.write(replace_control_characters(text) + "\n")
            self.stream.flush()
        self.heartbeat.touch()

    def show_note(self, text: str) -> None:
        """Print a note between attempts."""
        if self.summary:
            self.write_line(self.summary)
            self.summary = ""
        self.write_line(text)

    def show_interrupt(self, text: str) -> None:
        """Print a note; safe in a signal handler, where the stream may be in the middle of a write."""
        os.write(2, f"{text}\n".encode())
