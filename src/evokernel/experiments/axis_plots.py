"""Draws the arms of an experiment with axes in one plot: sorted by the mean speed-up of their search, relative to the mean of all arms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp
from pathlib import Path
from typing import Any

from evokernel.experiments.axis_effects import SearchComparison
from evokernel.experiments.intervals import Interval
from evokernel.experiments.results import Results
from evokernel.reports import plots

STYLES = ((plots.GREY, "o"), (plots.ORANGE, "s"), (plots.BLUE, "D"), (plots.INK, "^"))
OTHER_ARMS = "other arms"
NOTE = (
    "Right of the line: faster than the mean of all arms on the same operators. Bars: 95 % confidence intervals, paired by operator and "
    "seed. An arm whose bar crosses the line cannot be told apart from the mean."
)


def draw_axis_plots(results: Results, folder: Path) -> Iterator[plots.Plot | None]:
    """Draw one plot for all operators, and one for each group if there are several."""
    for number, (name, comparison) in enumerate(results.searches.items()):
        intervals = comparison.relative_to_mean()
        colours = list(results.spec.axes)[-1]
        title = f"Mean speed-up of the search, relative to the mean of all arms: {name}"
        file = "arms" if number == 0 else f"arms-{name}"
        height = 1.2 + 0.24 * len(intervals)
        yield plots.save_plot(folder, file, title, NOTE, 6.4, height, arms_drawer(intervals, label_arms(comparison, colours)))


def label_arms(comparison: SearchComparison, axis: str) -> dict[str, str]:
    """Return each arm's value on the axis that colours show, such as `memory: none`, in the order of the axis; other arms last."""
    order = {value: number for number, value in enumerate(comparison.axis_values(axis))}
    values = {arm: levels.get(axis, "") for arm, levels in comparison.levels.items()}
    arms = sorted(values, key=lambda arm: order.get(values[arm], len(order)))
    return {arm: f"{axis}: {values[arm]}" if values[arm] else OTHER_ARMS for arm in arms}


def arms_drawer(intervals: Mapping[str, Interval], labels: Mapping[str, str]) -> plots.Draw:
    """Return a function that draws a row for each arm, the best at the top."""

    def draw(figure: Any, axes: Any) -> bool:
        handles: dict[str, Any] = {}
        names = list(dict.fromkeys(labels.values()))
        for row, (arm, interval) in enumerate(reversed(list(intervals.items()))):
            colour, mark = STYLES[names.index(labels[arm]) % len(STYLES)]
            low, mean, high = exp(interval.low), exp(interval.mean), exp(interval.high)
            handles[labels[arm]] = axes.errorbar(
                [mean],
                [row],
                xerr=[[mean - low], [high - mean]],
                color=colour,
                marker=mark,
                markersize=5,
                capsize=2,
                linewidth=1,
                linestyle="",
            )
        axes.axvline(1, color=plots.INK, linewidth=0.8)
        axes.set_yticks(range(len(intervals)), list(intervals)[::-1])
        axes.set_ylim(-0.6, len(intervals) - 0.4)
        axes.set_xlabel("mean speed-up of the search relative to the mean of all arms (right: faster)")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.2f}×")
        shown = [name for name in names if name in handles]
        plots.add_legend(figure, [handles[name] for name in shown], shown)
        return bool(intervals)

    return draw
