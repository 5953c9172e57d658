"""The live display on a terminal: one row per active task and totals below, redrawn at most four times a second."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evokernel.app.run_progress import Progress, TaskProgress
from evokernel.core.records import Attempt
from evokernel.reports import formatting


class LiveDisplay:
    """Redraws itself; other output appears above it."""

    def __init__(self, progress: Progress, console: Console | None = None) -> None:
        self.progress = progress
        self.console = console or Console()
        self.live = Live(console=self.console, refresh_per_second=4, get_renderable=self.render, transient=True)

    def __enter__(self) -> LiveDisplay:
        self.live.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.live.stop()

    def show_attempt(self, attempt: Attempt, line: TaskProgress) -> None:
        """Do nothing: the next redraw shows the attempt."""

    def show_note(self, text: str) -> None:
        """Show a notice below the table."""
        self.progress.notice = text

    def show_interrupt(self, text: str) -> None:
        """Show a notice below the table."""
        self.progress.notice = text

    def render(self) -> Group:
        """The complete display, no taller than the terminal."""
        rows = max(3, self.console.height - 8)
        return Group(self.build_table(rows), *self.footer_lines(rows))

    def build_table(self, max_rows: int) -> Table:
        """The table of tasks: active tasks first, then the others in order."""
        table = Table(box=None, pad_edge=False, expand=False, header_style="bold")
        for name, right in (("task", False), ("stage", False), ("now", False), ("attempts", True), ("best", True), ("speed", True)):
            table.add_column(name, justify="right" if right else "left", no_wrap=True)
        table.add_column("last failure", no_wrap=True, overflow="ellipsis")
        lines = list(self.progress.task_progress.values())
        active = [line for line in lines if line.phase] + [line for line in lines if not line.phase]
        shown_lines = active[:max_rows]
        for line in (line for line in lines if any(line is shown for shown in shown_lines)):
            table.add_row(*self.format_row(line))
        return table

    def format_row(self, line: TaskProgress) -> tuple[Text | str, ...]:
        """The cells of one task."""
        outcome = line.best.outcome if line.best else None
        now = (
            f"{line.phase} {time.monotonic() - line.phase_started_at:.0f} s"
            if line.phase
            else "done"
            if line.has_pending_result
            else "waiting"
        )
        return (
            line.name,
            line.stage,
            Text(now, style="" if line.phase else "dim"),
            f"{line.attempt_count}/{self.progress.config.budget}",
            formatting.format_latency(outcome.latency_us if outcome else None),
            formatting.format_speed(outcome.speedup if outcome else None),
            Text(line.last_failure, style="red"),
        )

    def footer_lines(self, max_rows: int) -> list[Text]:
        """Totals: attempts, failures, cost and time."""
        progress, count = self.progress, len(self.progress.task_progress)
        hidden_note = f"{formatting.format_count(count - max_rows, 'more task')} not shown. " if count > max_rows else ""
        remaining = (
            f"about {formatting.format_duration(progress.remaining_s)} left"
            if progress.remaining_s is not None
            else "remaining time unknown"
        )
        lines = [
            "",
            *filter(None, [progress.timing_summary()]),
            f"{hidden_note}{progress.finished_attempts}/{progress.total_attempts} attempts, "
            f"{progress.compiled_tasks} of {count} compiled, {progress.correct_tasks} correct",
            progress.failure_summary(),
            f"{formatting.format_duration(progress.elapsed_s)} elapsed, {remaining}; {progress.cost_summary()}",
        ]
        texts = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
        return [*texts, Text(progress.notice, style="bold yellow")] if progress.notice else texts
