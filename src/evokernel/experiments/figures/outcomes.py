"""Figure 2: correctness and speed by category, and what refining gained, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evokernel.reports import formatting, metrics, plots
from evokernel.reports.metrics import Tried
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Column, Table, short_names

TIERS = ((1.0, "as fast or faster"), (0.8, "0.8 to 1"), (0.5, "0.5 to 0.8"), (0.0, "below 0.5"))
"""Of the baseline's speed, from above."""
SHADES = ("#1b4f72", "#2f7fc1", "#9cc4e4", "#e3e6ea")
MOST_PATHS = 4


def tier(tried: Tried) -> int | None:
    """Which of them an operator's best kernel is in; None without one that was timed."""
    if tried.speedup is None:
        return None
    return next(number for number, (least, _) in enumerate(TIERS) if tried.speedup >= least)


def tables(found: Mapping[str, Sequence[Tried]]) -> list[Table]:
    made = []
    for arm, tries in found.items():
        rows = [row(name, mine) for name, mine in metrics.categories(tries).items()]
        columns = (
            Column("category"),
            Column("operators", "count"),
            Column("correct", "share"),
            *(Column(f"{words} ×", "count") for _, words in TIERS),
            Column("first→best, median", "ratio"),
        )
        base = formatting.baseline_label(metrics.baselines(tries))
        gained = metrics.spread(further(tries))
        note = f"Speed of the best kernels over {base}. First correct to best, over operators with a further correct kernel"
        note += (
            f": median {formatting.ratio(gained.median)}, middle half {formatting.digits(gained.low)} to {formatting.digits(gained.high)}"
            if gained
            else ""
        )
        made.append(Table(f"{arm}: by category", columns, (*rows, row("all", tries)), f"{note} (n = {len(further(tries))})."))
    return made


def row(name: str, tries: Sequence[Tried]) -> tuple[Any, ...]:
    tiers = [tier(tried) for tried in tries]
    gained = metrics.spread(further(tries))
    counts = [tiers.count(number) for number in range(len(TIERS))]
    return name, len(tries), sum(tried.solved for tried in tries) / len(tries), *counts, gained.median if gained else None


def further(tries: Sequence[Tried]) -> list[float]:
    """Gains of operators with more than one correct kernel: of others nothing can be said."""
    return [tried.gain for tried in tries if len(tried.correct) > 1 and tried.gain]


def plots_of(arm: str, tries: Sequence[Tried], folder: Path) -> list[Plot | None]:
    base = formatting.baseline_label(metrics.baselines(tries))
    by_category = metrics.categories(tries)
    height = 1.2 + 0.3 * len(by_category)
    return [
        plots.save(
            folder,
            f"tiers-{arm}",
            f"Correct kernels and their speed over {base}: {arm}",
            "",
            6.4,
            height,
            lambda _, axes: bars(axes, by_category),
        ),
        plots.save(
            folder,
            f"gains-{arm}",
            f"First correct to best, operator by operator: {arm}",
            "",
            5.6,
            3.2,
            lambda _, axes: sorted_gains(axes, tries),
        ),
        plots.save(
            folder,
            f"paths-{arm}",
            f"Best so far over attempts, where most was gained: {arm}",
            "",
            5.6,
            3.4,
            lambda figure, axes: paths(figure, axes, tries),
        ),
    ]


def bars(axes: Any, by_category: Mapping[str, Sequence[Tried]]) -> bool:
    """Shares of all operators of a category, stacked; what is missing to 100 has no correct kernel that was timed."""
    names = list(by_category)[::-1]
    left = [0.0] * len(names)
    for number, (_, label) in enumerate(TIERS):
        shares = [100 * sum(tier(tried) == number for tried in by_category[name]) / len(by_category[name]) for name in names]
        axes.barh(
            names, shares, left=left, color=SHADES[number], edgecolor=plots.INK, linewidth=0.5, hatch=plots.HATCHES[number], label=label
        )
        left = [before + share for before, share in zip(left, shares)]
    axes.set_xlim(0, 100)
    axes.set_xlabel("operators, % (blank: none correct, or not timed)")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(TIERS), fontsize=8)
    return any(left)


def sorted_gains(axes: Any, tries: Sequence[Tried]) -> bool:
    gained = sorted(further(tries))
    if not gained:
        return False
    spread = metrics.spread(gained)
    assert spread
    axes.plot(range(1, len(gained) + 1), gained, color=plots.BLUE, marker=".", linestyle="-", linewidth=0.8)
    axes.axhline(spread.median, color=plots.ORANGE, linestyle="--", linewidth=1, label=f"median {formatting.ratio(spread.median)}")
    axes.axhspan(spread.low, spread.high, color=plots.GREY, alpha=0.15, label="middle half")
    plots.ratio_axis(axes.yaxis)
    axes.set_ylim(min(gained[0], 1) / 1.1, max(gained[-1], 2) * 1.15)
    plots.whole_ticks(axes.xaxis)
    axes.set_xlabel("operators, sorted")
    axes.set_ylabel("first correct over best")
    axes.legend(frameon=False, loc="upper left")
    return True


def paths(figure: Any, axes: Any, tries: Sequence[Tried]) -> bool:
    """Operators with the largest gains, each with its name."""
    best = sorted((tried for tried in tries if len(tried.correct) > 1 and tried.gain), key=lambda tried: -(tried.gain or 0.0))[:MOST_PATHS]
    names = short_names([tried.task.id for tried in best])
    for order, tried in enumerate(best):
        known = [(number, latency) for number, latency in enumerate(tried.trajectory(), start=1) if latency is not None]
        points = [(number, latency / known[0][1]) for number, latency in known]
        axes.step(*zip(*points), where="post", label=names[tried.task.id], **plots.line(order, len(points)))
    if not best:
        return False
    plots.ratio_axis(axes.yaxis)
    plots.whole_ticks(axes.xaxis)
    axes.set_xlabel("attempts per operator")
    axes.set_ylabel("best so far over first correct")
    plots.legend(figure, *axes.get_legend_handles_labels())
    return True


def drawings(found: Mapping[str, Sequence[Tried]], folder: Path) -> list[Plot | None]:
    return [plot for arm, tries in found.items() for plot in plots_of(arm, tries, folder)]
