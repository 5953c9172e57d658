"""The live display on a terminal: a row per active task, totals below, at most four times a second."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from evokernel.cli.progress import Line, Progress
from evokernel.core.records import Attempt
from evokernel.reports import formatting


class LiveDisplay:
    """Redraws itself; what else is printed appears above it."""

    def __init__(self, progress: Progress, console: Console | None = None) -> None:
        self.progress = progress
        self.console = console or Console()
        self.live = Live(console=self.console, refresh_per_second=4, get_renderable=self.render, transient=True)

    def __enter__(self) -> LiveDisplay:
        self.live.start()
        return self

    def __exit__(self, *trouble: object) -> None:
        self.live.stop()

    def show(self, attempt: Attempt, line: Line) -> None:
        """Nothing to do: the next redraw shows it."""

    def note(self, text: str) -> None:
        self.progress.notice = text

    def interrupt(self, text: str) -> None:
        self.progress.notice = text

    def render(self) -> Group:
        """The whole display, no taller than the terminal."""
        rows = max(3, self.console.height - 8)
        return Group(self.table(rows), *self.footer(rows))

    def table(self, rows: int) -> Table:
        """The most active tasks first: those being worked on, then the others in order."""
        table = Table(box=None, pad_edge=False, expand=False, header_style="bold")
        for name, right in (("task", False), ("stage", False), ("now", False), ("tries", True), ("best", True), ("speed-up", True)):
            table.add_column(name, justify="right" if right else "left", no_wrap=True)
        table.add_column("last failure", no_wrap=True, overflow="ellipsis")
        lines = list(self.progress.lines.values())
        active = [line for line in lines if line.phase] + [line for line in lines if not line.phase]
        chosen = active[:rows]
        for line in (line for line in lines if any(line is one for one in chosen)):
            table.add_row(*self.cells(line))
        return table

    def cells(self, line: Line) -> tuple[Text | str, ...]:
        """One row."""
        outcome = line.best.outcome if line.best else None
        now = f"{line.phase} {time.monotonic() - line.since:.0f} s" if line.phase else "done" if line.made else "waits"
        return (
            line.name,
            line.stage,
            Text(now, style="" if line.phase else "dim"),
            f"{line.done}/{self.progress.config.budget}",
            formatting.latency(outcome.latency_us if outcome else None),
            formatting.ratio(outcome.speedup if outcome else None),
            Text(line.failure, style="red"),
        )

    def footer(self, rows: int) -> list[Text]:
        """Totals: counts, failures, cost, time."""
        progress, count = self.progress, len(self.progress.lines)
        hidden = f"{count - rows} more tasks not shown. " if count > rows else ""
        left = f"about {formatting.duration(progress.left_s)} left" if progress.left_s is not None else "time left not known yet"
        lines = [
            "",
            *filter(None, [progress.times()]),
            f"{hidden}{progress.done}/{progress.total} attempts, {progress.compiled} of {count} compiled, {progress.solved} correct",
            progress.reasons(),
            f"{formatting.duration(progress.elapsed_s)} elapsed, {left}; {progress.spent()}",
        ]
        texts = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines]
        return [*texts, Text(progress.notice, style="bold yellow")] if progress.notice else texts
