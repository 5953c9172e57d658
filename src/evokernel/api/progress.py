"""Shows a run while it works: a table that a notebook updates, or plain lines on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

from evokernel.api.views import html_table
from evokernel.app.run_progress import Progress, TaskProgress, describe_outcome
from evokernel.core.records import Attempt
from evokernel.reports.tables import Column, Table
from evokernel.reports.text_tables import replace_control_characters

MIN_UPDATE_S = 0.5
"""A notebook's table is updated at most this often."""


class QuietDisplay:
    """Shows nothing."""

    def show_attempt(self, attempt: Attempt, line: TaskProgress) -> None:
        """Do nothing."""

    def show_note(self, text: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class LineDisplay(QuietDisplay):
    """Writes one line for each attempt to stderr."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def show_attempt(self, attempt: Attempt, line: TaskProgress) -> None:
        """Write what came of an attempt."""
        progress = self.progress
        count = f"[{progress.finished_attempts}/{progress.total_attempts}]"
        self.show_note(f"{count} {line.name}  {attempt.stage.value}  {describe_outcome(attempt, line)}")

    def show_note(self, text: str) -> None:
        """Write a line."""
        sys.stderr.write(replace_control_characters(text) + "\n")
        sys.stderr.flush()


class NotebookDisplay(QuietDisplay):
    """One table per run, which the notebook updates in place."""

    def __init__(self, progress: Progress) -> None:
        from IPython import display

        self.progress, self.text, self.updated_at = progress, "", 0.0
        self.notebook: Any = display
        self.handle = self.notebook.display(self.notebook.HTML(self.render()), display_id=True)

    def show_attempt(self, attempt: Attempt, line: TaskProgress) -> None:
        """Update the table if the last update was long enough ago."""
        if time.monotonic() - self.updated_at >= MIN_UPDATE_S:
            self.update()

    def show_note(self, text: str) -> None:
        """Show a text below the table."""
        self.text = text
        self.update()

    def close(self) -> None:
        """Show the final state."""
        self.text = ""
        self.update()

    def update(self) -> None:
        """Draw the table again."""
        self.updated_at = time.monotonic()
        self.handle.update(self.notebook.HTML(self.render()))

    def render(self) -> str:
        """Return the table as HTML."""
        progress = self.progress
        columns = (Column("task"), Column("attempts", "count"), Column("best", "us"), Column("speed-up", "ratio"), Column("last failure"))
        rows = tuple(progress_row(line) for line in progress.task_progress.values())
        title = f"{progress.finished_attempts} of {progress.total_attempts} attempts, {progress.correct_tasks} tasks with a correct kernel"
        return html_table(Table(title, columns, rows, self.text))


def progress_row(line: TaskProgress) -> tuple[str, int, float | None, float | None, str]:
    """Return the row of one task."""
    outcome = line.best.outcome if line.best else None
    return line.name, line.attempt_count, outcome.latency_us if outcome else None, outcome.speedup if outcome else None, line.last_failure


def make_display(progress: Progress, quiet: bool) -> QuietDisplay:
    """Return the display for this process: a notebook's, lines on a terminal, or none."""
    if quiet:
        return QuietDisplay()
    if is_notebook():
        return NotebookDisplay(progress)
    return LineDisplay(progress) if sys.stderr.isatty() else QuietDisplay()


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")
