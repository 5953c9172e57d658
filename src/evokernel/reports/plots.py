"""Plots of a run: SVG for the page, SVG and PNG files. Lines and bars differ in shape, not only in colour.

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

from evokernel.core.errors import UserError
from evokernel.core.records import Attempt
from evokernel.reports import metrics, words
from evokernel.reports.metrics import Tried
from evokernel.reports.tables import short_names

INK = "#010203"  # replaced by the page's own text colour where a plot is set into it
BLUE, ORANGE, GREY = "#2f7fc1", "#e08214", "#8a8f98"
HATCHES = ("", "///", "---", "xxx", "\\\\\\", "|||", "++")
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


def draw_all(found: Sequence[Tried], attempts: Sequence[Attempt], folder: Path) -> list[Plot]:
    """Every plot there is data for, written to `folder` as SVG and PNG."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [plot for plot in plots(found, attempts, folder) if plot]
    except OSError as error:
        raise UserError(
            f"cannot write plots to {folder}: {error.strerror or error}; free some space, or give another place with --out"
        ) from error


def plots(found: Sequence[Tried], attempts: Sequence[Attempt], folder: Path) -> Iterator[Plot | None]:
    """Draws them one by one; None for one that has nothing to show."""
    made_up = words.not_measured(metrics.clocks(attempts))
    base = words.baseline(metrics.baselines(found))
    mark = f"; {made_up}" if made_up else ""
    named = min(sum(tried.solved for tried in found), MOST_NAMED)
    tall = max(2.6, 0.24 * named + 0.9)
    yield save(
        folder, "solved", "Tasks compiled and correct", "After so many attempts per task.", 5.2, 3.2, lambda f, ax: solved(ax, found)
    )
    yield save(
        folder,
        "trajectories",
        "Best latency over rounds",
        "Relative to each task's first correct kernel; a thin line per task, thick the median.",
        5.2,
        3.2,
        lambda f, ax: trajectories(ax, found, f"best / first correct{mark}"),
    )
    gains = {tried.task.id: tried.gain for tried in found if tried.gain}
    yield save(
        folder,
        "gains",
        "Gain from first correct to best",
        "Within each operator.",
        5.2,
        tall,
        lambda f, ax: bars(ax, gains, f"gain, logarithmic{mark}"),
    )
    speedups = {tried.task.id: tried.speedup for tried in found if tried.speedup}
    yield save(
        folder,
        "speedups",
        f"Speed-up over {base}",
        f"Best kernel of each operator; hatched: slower than {base}.",
        5.2,
        tall,
        lambda f, ax: bars(ax, speedups, f"speed-up over {base}, logarithmic{mark}"),
    )
    yield save(folder, "failures", "Failures by round", "Share of a round's attempts.", 5.2, 3.2, lambda f, ax: failures(ax, found))
    yield save(
        folder,
        "values",
        "Value of the most shown memories",
        "Q at the moment an item was shown; solid Q1 (drafting), dashed Q2 (refining).",
        5.2,
        3.6,
        lambda f, ax: values(f, ax, attempts),
    )


def save(folder: Path, name: str, title: str, note: str, width: float, height: float, draw: Draw) -> Plot | None:
    """Draws one figure into both files; None when `draw` found nothing to show."""
    import matplotlib

    with canvas(width, height) as (figure, axes):
        if not draw(figure, axes):
            return None
        figure.savefig(folder / f"{name}.png", dpi=160)
        figure.set_layout_engine("none")  # laid out once, the same for all three
        with matplotlib.rc_context({"svg.hashsalt": name}):
            bare = io.StringIO()
            figure.savefig(bare, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    return Plot(name, title, note, inline(bare.getvalue(), title))


def inline(svg: str, title: str) -> str:
    """An SVG document as an element of a page."""
    body = svg[svg.index("<svg") :].replace(INK, "currentColor")
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    return body.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


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


def failures(axes: Any, found: Sequence[Tried]) -> bool:
    """Stacked bars per round, the commonest reasons named, the rest together."""
    rounds = metrics.failures_by_round(found)
    total = metrics.failures(a for tried in found for a in tried.attempts)
    if not total:
        return False
    common = [reason for reason, _ in sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))[: len(HATCHES) - 1]]
    rest = len(total) > len(common)
    base = [0.0] * len(rounds)
    made = [sum(n < len(tried.attempts) for tried in found) for n in range(len(rounds))]
    for order, reason in enumerate([*common, *(["other"] if rest else [])]):
        counts = [sum(c for r, c in row.items() if r not in common) if reason == "other" else row[reason] for row in rounds]
        shares = [100 * count / of for count, of in zip(counts, made)]
        shade = (BLUE, ORANGE, GREY)[order % 3]
        style = {"facecolor": shade, "edgecolor": INK, "linewidth": 0.5, "hatch": HATCHES[order]}
        axes.bar(
            range(1, len(rounds) + 1), shares, bottom=base, width=0.75, label=reason if len(reason) <= 24 else reason[:23] + "…", **style
        )
        base = [a + b for a, b in zip(base, shares)]
    axes.set_xlabel("round")
    axes.set_ylabel("attempts that failed, %")
    whole_ticks(axes.xaxis)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True)
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
