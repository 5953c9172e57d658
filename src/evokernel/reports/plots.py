"""How plots are made: SVG for the page, SVG and PNG files. Lines and bars differ in shape, not only in colour.

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
from evokernel.reports.metrics import Tried
from evokernel.reports.tables import short_names

INK = "#010203"  # replaced by the page's own text colour where a plot is set into it
BLUE, ORANGE, GREY = "#2f7fc1", "#e08214", "#8a8f98"
HATCHES = ("", "///", "---", "xxx", "\\\\\\", "|||", "++")
LINES = (("-", "s"), ("--", "o"), (":", "^"), ("-.", "D"), ((0, (5, 1)), "v"), ((0, (1, 1)), "x"))
MOST_NAMED = 60
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
    """One figure, drawn."""

    name: str
    title: str
    note: str
    svg: str
    """To be set into a page: no background, text in the page's colour."""


Draw = Callable[[Any, Any], bool]


@contextmanager
def canvas(width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes in the house style."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


def save(folder: Path, name: str, title: str, note: str, width: float, height: float, draw: Draw) -> Plot | None:
    """Draws one figure into both files; None when `draw` found nothing to show."""
    import matplotlib

    with canvas(width, height) as (figure, axes):
        if not draw(figure, axes):
            return None
        figure.get_layout_engine().execute(figure)
        figure.set_layout_engine(None)  # laid out once, the same for both
        figure.savefig(folder / f"{name}.png", dpi=160)
        with matplotlib.rc_context({"svg.hashsalt": name}):
            bare = io.StringIO()
            figure.savefig(bare, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    (folder / f"{name}.svg").write_text(on_white(bare.getvalue()))
    return Plot(name, title, note, inline(bare.getvalue(), title))


def on_white(svg: str) -> str:
    """An SVG document without a background, with one."""
    end = svg.index(">", svg.index("<svg")) + 1
    return f'{svg[:end]}\n <rect width="100%" height="100%" fill="#ffffff"/>{svg[end:]}'


def inline(svg: str, title: str) -> str:
    """An SVG document as an element of a page."""
    body = svg[svg.index("<svg") :].replace(INK, "currentColor")
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    return body.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


def line(order: int, points: int = 1) -> dict[str, Any]:
    """How the line of an arm is drawn: with its own dashes and marks, about ten of them."""
    (dashes, mark), colour = LINES[order % len(LINES)], (BLUE, ORANGE, GREY, INK)[order % 4]
    return {"linestyle": dashes, "marker": mark, "color": colour, "markersize": 4, "markevery": max(1, points // 10)}


def legend(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Below everything else, in as many columns as there is room for."""
    widest = max((len(name) for name in names), default=0)
    columns = max(1, int(72 * figure.get_figwidth() / (4.7 * widest + 44)))
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=min(columns, len(names)), fontsize=8)


def whole_ticks(axis: Any) -> None:
    """Rounds and counts are whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def solved(axes: Any, found: Sequence[Tried]) -> bool:
    """Cumulative counts over rounds."""
    curve = metrics.curve(found)
    if not curve:
        return False
    rounds = [point[0] for point in curve]
    axes.plot(rounds, [point[1] for point in curve], color=ORANGE, linestyle="--", marker="o", markersize=4, label="compiled")
    axes.plot(rounds, [point[2] for point in curve], color=BLUE, marker="s", markersize=4, label="correct")
    axes.axhline(len(found), color=GREY, linewidth=0.8, linestyle=":")
    axes.set_ylim(0, len(found) * 1.06)
    axes.set_xlabel("attempts per task")
    axes.set_ylabel(f"tasks (of {len(found)})")
    whole_ticks(axes.xaxis)
    whole_ticks(axes.yaxis)
    axes.legend(frameon=False, loc="best")
    return True


def trajectories(axes: Any, found: Sequence[Tried], label: str) -> bool:
    """Best so far over first correct, per task."""
    paths = []
    for tried in found:
        known = [value for value in tried.trajectory() if value is not None]
        if known and tried.first_round:
            paths.append([(tried.first_round + n, value / known[0]) for n, value in enumerate(known)])
    if not paths:
        return False
    for path in paths:
        axes.step(*zip(*path), where="post", color=GREY, linewidth=0.8, alpha=0.8)
    rounds = sorted({point[0] for path in paths for point in path})
    middle = [metrics.spread([value for path in paths for at, value in path if at == number]) for number in rounds]
    axes.step(rounds, [spread.median for spread in middle if spread], where="post", color=BLUE, linewidth=2.4, label="median")
    ratio_axis(axes.yaxis)
    axes.set_xlabel("attempts per task")
    axes.set_ylabel(label)
    whole_ticks(axes.xaxis)
    axes.legend(frameon=False, loc="best")
    return True


def ratio_axis(axis: Any) -> None:
    """A logarithmic axis in powers of two, written as 1/2×, 1×, 2×."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    set_scale("log", base=2)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×" if value >= 1 else f"1/{1 / value:.3g}×"))
    axis.set_minor_locator(NullLocator())


def bars(axes: Any, figures: dict[str, float], label: str) -> bool:
    """One bar per task from 1×, sorted; without names when there are too many to read."""
    if not figures:
        return False
    names = short_names(list(figures))
    ordered = sorted(figures.items(), key=lambda pair: (pair[1], pair[0]))
    places = range(len(ordered))
    for place, (_, value) in zip(places, ordered):
        style = {"color": BLUE} if value >= 1 else {"facecolor": "none", "edgecolor": ORANGE, "hatch": "////"}
        axes.barh(place, value - 1, left=1, height=0.7, **style)
    ratio_axis(axes.xaxis)
    low, high = min(0.9, ordered[0][1]), max(1.1, ordered[-1][1])
    room = (high / low) ** 0.16
    axes.set_xlim(low / (room if ordered[0][1] < 1 else 1), high * room)  # labels of slower ones stand to the left
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_xlabel(label)
    if len(ordered) > MOST_NAMED:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(ordered)} tasks")
        return True
    axes.set_yticks(list(places), [names[name] for name, _ in ordered])
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    for place, (_, value) in zip(places, ordered):
        side = 1 if value >= 1 else -1
        axes.annotate(
            f"{value:.2f}×",
            (value, place),
            (3 * side, 0),
            textcoords="offset points",
            va="center",
            ha="left" if side > 0 else "right",
            size=7.5,
        )
    return True


def values(figure: Any, axes: Any, attempts: Sequence[Attempt], most: int = 6) -> bool:
    """How Q of the most shown items moved."""
    paths = metrics.shown_values(attempts)
    chosen = sorted(paths, key=lambda key: (-len(paths[key]), key))[:most]
    chosen = [key for key in chosen if len(paths[key]) > 1]
    if not chosen:
        return False
    items = sorted({item for item, _ in chosen})
    for item, stage in sorted(chosen):
        order, path = items.index(item), paths[item, stage]
        name = item.removeprefix(f"{attempts[0].run}:")
        label = f"{'Q1' if stage == 'draft' else 'Q2'} {name if len(name) <= 60 else '…' + name[-59:]}"
        line = {"color": (BLUE, ORANGE, GREY)[order % 3], "linestyle": "-" if stage == "draft" else "--", "linewidth": 1.1}
        mark = {"marker": "os^Dvx"[order % 6], "markersize": 4, "markevery": max(1, len(path) // 10)}
        axes.plot(*zip(*path), label=label, **line, **mark)
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.set_xlabel("attempts of the run")
    whole_ticks(axes.xaxis)
    axes.set_ylabel("Q")
    figure.legend(frameon=False, loc="outside lower left", ncols=1, fontsize=7.5)
    return True
