"""Figure 4: operator by operator, when it was first solved, when its best improved, and how fast it ended against the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path
from typing import Any

from evokernel.reports import formatting, metrics, plots
from evokernel.reports.metrics import Tried
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Column, Table, short_names


def steps(tried: Tried) -> list[tuple[int, float]]:
    """Attempts that made the best faster, the first correct one first, with its latency."""
    found: list[tuple[int, float]] = []
    for number, latency_us in enumerate(tried.trajectory(), start=1):
        if latency_us is not None and (not found or latency_us < found[-1][1]):
            found.append((number, latency_us))
    return found


def tables(found: Mapping[str, Sequence[Tried]]) -> list[Table]:
    made = []
    for arm, tries in found.items():
        names = short_names([tried.task.id for tried in tries])
        columns = (
            Column("operator"),
            Column("first solve", "count"),
            Column("best improved at"),
            Column("first correct", "us"),
            Column("best", "us"),
            Column("speed-up", "ratio"),
        )
        rows = []
        for tried in tries:
            path = steps(tried)
            later = ", ".join(str(number) for number, _ in path[1:])
            best = tried.outcome.latency_us if tried.outcome else None
            rows.append((names[tried.task.id], tried.first_round, later or None, path[0][1] if path else None, best, tried.speedup))
        note = f"Attempts are counted per operator. Speed-up over {formatting.baseline_label(metrics.baselines(tries))}."
        made.append(Table(f"{arm}: timelines", columns, tuple(rows), note))
    return made


def drawings(found: Mapping[str, Sequence[Tried]], folder: Path) -> list[Plot | None]:
    return [drawing(arm, tries, folder) for arm, tries in found.items()]


def drawing(arm: str, tries: Sequence[Tried], folder: Path) -> Plot | None:
    shown = list(tries)[: plots.MOST_NAMED]
    height = 1.3 + 0.26 * len(shown)
    return plots.save(folder, f"timeline-{arm}", f"Timelines: {arm}", "", 8.4, height, lambda figure, axes: draw(figure, axes, shown))


def draw(figure: Any, axes: Any, tries: Sequence[Tried]) -> bool:
    """Two panels that share their rows."""
    if not any(tried.attempts for tried in tries):
        return False
    axes.remove()
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    names = short_names([tried.task.id for tried in tries])
    longest = max((len(tried.attempts) for tried in tries), default=0)
    for place, tried in enumerate(reversed(tries)):
        path = steps(tried)
        left.plot([1, max(longest, 1)], [place, place], color=plots.GREY, linewidth=0.4)
        if path:
            left.plot([number for number, _ in path], [place] * len(path), color=plots.GREY, linewidth=1.2)
            left.plot([number for number, _ in path[1:-1]], [place] * len(path[1:-1]), "|", color=plots.INK, markersize=7)
            left.plot(path[0][0], place, "o", markerfacecolor="none", markeredgecolor=plots.ORANGE, markersize=6)
            left.plot(path[-1][0], place, "*", color=plots.BLUE, markersize=7)
            text = formatting.latency(tried.outcome.latency_us if tried.outcome else path[-1][1])
            left.annotate(text, (longest, place), (6, 0), textcoords="offset points", va="center", size=7)
        if tried.speedup:
            colour = {"color": plots.BLUE} if tried.speedup >= 1 else {"facecolor": "none", "edgecolor": plots.ORANGE, "hatch": "////"}
            right.barh(place, log2(tried.speedup), height=0.6, **colour)
    left.set_yticks(range(len(tries)), [names[tried.task.id] for tried in reversed(tries)])
    left.set_xlim(0.5, longest * 1.16 + 0.5)
    left.set_xlabel("attempts: ○ first solve, | best improved, ★ best")
    plots.whole_ticks(left.xaxis)
    right.axvline(0, color=plots.INK, linewidth=0.8)
    right.set_xlabel(f"log2 of speed-up over\n{formatting.baseline_label(metrics.baselines(tries))}")
    return True
