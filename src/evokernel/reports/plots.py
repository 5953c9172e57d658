"""Draws plots as SVG for pages and as SVG and PNG files. Lines and bars differ in shape, not only in colour.

matplotlib is loaded when a plot is drawn, without pyplot and its global state.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evokernel.core.records import Attempt
from evokernel.reports import metrics
from evokernel.reports.metrics import TaskResult
from evokernel.reports.tables import shorten_task_names

INK = "#010203"  # an inlined plot uses the page's text colour in its place
BLUE, ORANGE, GREY = "#2f7fc1", "#e08214", "#8a8f98"
HATCHES = ("", "///", "---", "xxx", "\\\\\\", "|||", "++")
LINES = (("-", "s"), ("--", "o"), (":", "^"), ("-.", "D"), ((0, (5, 1)), "v"), ((0, (1, 1)), "x"))
MAX_NAMED_TASKS = 60
STYLE = {
    "font.size": 9,
    "font.family": "sans-serif",
    "text.parse_math": False,
    "svg.fonttype": "none",
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Plot:
    """One plot as drawn."""

    name: str
    title: str
    note: str
    svg: str
    """For a page: no background, text in the page's colour."""


Draw = Callable[[Any, Any], bool]
"""Draws into a figure and its axes; returns False if there is no data."""


@contextmanager
def new_figure(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """Create a figure and its axes in the style of all plots."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def save_plot(folder: Path, name: str, title: str, note: str, width: float, height: float, draw: Draw) -> Plot | None:
    """Draw one plot and write it as SVG and PNG; None if `draw` has no data."""
    import matplotlib

    with new_figure(width, height) as (figure, axes):
        if not draw(figure, axes):
            return None
        figure.get_layout_engine().execute(figure)
        figure.set_layout_engine(None)  # both files use this one layout
        figure.savefig(folder / f"{name}.png", dpi=160)
        with matplotlib.rc_context({"svg.hashsalt": name}):
            transparent_svg = io.StringIO()
            figure.savefig(transparent_svg, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    (folder / f"{name}.svg").write_text(add_white_background(transparent_svg.getvalue()))
    return Plot(name, title, note, inline_svg(transparent_svg.getvalue(), title))


def add_white_background(svg: str) -> str:
    """Add a white background to an SVG document."""
    end = svg.index(">", svg.index("<svg")) + 1
    return f'{svg[:end]}\n <rect width="100%" height="100%" fill="#ffffff"/>{svg[end:]}'


def inline_svg(svg: str, title: str) -> str:
    """Convert an SVG document to an element of a page."""
    body = svg[svg.index("<svg") :].replace(INK, "currentColor")
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    return body.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def line_style(order: int, points: int = 1) -> dict[str, Any]:
    """Return the line style of the n-th arm: its own dashes and marker, with about ten markers per line."""
    (dashes, mark), colour = LINES[order % len(LINES)], (BLUE, ORANGE, GREY, INK)[order % 4]
    return {"linestyle": dashes, "marker": mark, "color": colour, "markersize": 4, "markevery": max(1, points // 10)}


def add_legend(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Add a legend below the plots, in as many columns as fit."""
    widest = max((len(name) for name in names), default=0)
    columns = max(1, int(72 * figure.get_figwidth() / (4.7 * widest + 44)))
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=min(columns, len(names)), fontsize=8)


def use_integer_ticks(axis: Any) -> None:
    """Place ticks at integers only: rounds and counts."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def draw_solved(axes: Any, results: Sequence[TaskResult]) -> bool:
    """Draw the cumulative number of tasks with a compiled and with a correct kernel."""
    curve = metrics.cumulative_counts(results)
    if not curve:
        return False
    rounds = [point[0] for point in curve]
    axes.plot(rounds, [point[1] for point in curve], color=ORANGE, linestyle="--", marker="o", markersize=4, label="compiled")
    axes.plot(rounds, [point[2] for point in curve], color=BLUE, marker="s", markersize=4, label="correct")
    axes.axhline(len(results), color=GREY, linewidth=0.8, linestyle=":")
    axes.set_ylim(0, len(results) * 1.06)
    axes.set_xlabel("attempts per task")
    axes.set_ylabel(f"tasks (of {len(results)})")
    use_integer_ticks(axes.xaxis)
    use_integer_ticks(axes.yaxis)
    axes.legend(frameon=False, loc="best")
    return True


def draw_best_latencies(axes: Any, results: Sequence[TaskResult], label: str) -> bool:
    """Draw each task's best latency so far, relative to its first correct kernel, and the median over tasks."""
    paths = []
    for result in results:
        latencies = [value for value in result.best_latencies() if value is not None]
        if latencies and result.first_correct_round:
            paths.append([(result.first_correct_round + n, value / latencies[0]) for n, value in enumerate(latencies)])
    if not paths:
        return False
    for path in paths:
        axes.step(*zip(*path), where="post", color=GREY, linewidth=0.8, alpha=0.8)
    rounds = sorted({point[0] for path in paths for point in path})
    quartiles = [metrics.quartiles([value for path in paths for at, value in path if at == number]) for number in rounds]
    axes.step(rounds, [one.median for one in quartiles if one], where="post", color=BLUE, linewidth=2.4, label="median")
    set_ratio_axis(axes.yaxis)
    axes.set_xlabel("attempts per task")
    axes.set_ylabel(label)
    use_integer_ticks(axes.xaxis)
    axes.legend(frameon=False, loc="best")
    return True


def set_ratio_axis(axis: Any) -> None:
    """Use a logarithmic axis with powers of two, labelled 1/2×, 1×, 2×."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    set_scale("log", base=2)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×" if value >= 1 else f"1/{1 / value:.3g}×"))
    axis.set_minor_locator(NullLocator())


def draw_bars(axes: Any, figures: dict[str, float], label: str) -> bool:
    """Draw one bar per task starting at 1×, sorted; without task names if there are too many."""
    if not figures:
        return False
    names = shorten_task_names(list(figures))
    sorted_figures = sorted(figures.items(), key=lambda pair: (pair[1], pair[0]))
    rows = range(len(sorted_figures))
    for row, (_, value) in zip(rows, sorted_figures):
        style = {"color": BLUE} if value >= 1 else {"facecolor": "none", "edgecolor": ORANGE, "hatch": "////"}
        axes.barh(row, value - 1, left=1, height=0.7, **style)
    set_ratio_axis(axes.xaxis)
    low, high = min(0.9, sorted_figures[0][1]), max(1.1, sorted_figures[-1][1])
    margin = (high / low) ** 0.16
    axes.set_xlim(low / (margin if sorted_figures[0][1] < 1 else 1), high * margin)  # labels of slower tasks are left of their bars
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_xlabel(label)
    if len(sorted_figures) > MAX_NAMED_TASKS:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(sorted_figures)} tasks")
        return True
    axes.set_yticks(list(rows), [names[name] for name, _ in sorted_figures])
    axes.set_ylim(-0.6, len(sorted_figures) - 0.4)
    for row, (_, value) in zip(rows, sorted_figures):
        side = 1 if value >= 1 else -1
        axes.annotate(
            f"{value:.2f}×",
            (value, row),
            (3 * side, 0),
            textcoords="offset points",
            va="center",
            ha="left" if side > 0 else "right",
            size=7.5,
        )
    return True


def draw_q_values(figure: Any, axes: Any, attempts: Sequence[Attempt], max_lines: int = 6) -> bool:
    """Draw how Q of the most shown memory items changed over the run."""
    paths = metrics.q_value_paths(attempts)
    keys = sorted(paths, key=lambda key: (-len(paths[key]), key))[:max_lines]
    keys = [key for key in keys if len(paths[key]) > 1]
    if not keys:
        return False
    items = sorted({item for item, _ in keys})
    for item, stage in sorted(keys):
        order, path = items.index(item), paths[item, stage]
        name = item.removeprefix(f"{attempts[0].run}:")
        label = f"{'Q1' if stage == 'draft' else 'Q2'} {name if len(name) <= 60 else '…' + name[-59:]}"
        line = {"color": (BLUE, ORANGE, GREY)[order % 3], "linestyle": "-" if stage == "draft" else "--", "linewidth": 1.1}
        mark = {"marker": "os^Dvx"[order % 6], "markersize": 4, "markevery": max(1, len(path) // 10)}
        axes.plot(*zip(*path), label=label, **line, **mark)
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.set_xlabel("attempts of the run, from 1")
    use_integer_ticks(axes.xaxis)
    axes.set_ylabel("Q (learned value)")
    figure.legend(frameon=False, loc="outside lower left", ncols=1, fontsize=7.5)
    return True
