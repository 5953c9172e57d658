"""Comparison of runs in the Python API: `ek.compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evokernel.api.frames import AnyRun, as_runs
from evokernel.api.views import TableView
from evokernel.core.errors import UserError
from evokernel.experiments.metrics import PairedDifference
from evokernel.experiments.run_comparison import (
    PairedRuns,
    RunComparison,
    compare_runs,
    comparison_json,
    has_bounds,
    latency_ratio,
    open_run,
    pairs_table,
    runs_table,
    tasks_table,
)
from evokernel.reports.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAR_COLOR, MEAN_COLOR = "#4477aa", "#222222"


class Comparison(TableView):
    """Runs side by side, each compared with the first one and paired by task.

    Intervals are 95 % confidence intervals by bootstrap over tasks. Fewer than six tasks are too few for them: then tables,
    `record()` and the plot have none. They do not cover chance between runs with other seeds;
    `evokernel experiment` repeats runs for that.

    Attributes:
        data: The runs with their results, and the pairs.
    """

    def __init__(self, data: RunComparison) -> None:
        self.data = data

    @property
    def pairs(self) -> list[PairedRuns]:
        """Each further run compared with the first: `solved`, `speed` and `first_correct` with their intervals and p values."""
        return list(self.data.pairs)

    @property
    def solved(self) -> PairedDifference | None:
        """Share of tasks that the second run solved minus the first one's: `interval.low`, `.mean`, `.high`, and `p`."""
        return self.data.pairs[0].solved

    @property
    def speed(self) -> PairedDifference | None:
        """Logarithm of the first run's best latency divided by the second one's, over the tasks that both solved.

        `speed.interval.exp()` is the ratio with its interval: above 1, the second run has the faster kernels. None if no task
        was solved and timed by both.
        """
        return self.data.pairs[0].speed

    @property
    def first_correct(self) -> PairedDifference | None:
        """Attempts until the first correct kernel of the second run minus those of the first one."""
        return self.data.pairs[0].first_correct

    def record(self) -> dict[str, Any]:
        """Return the comparison as JSON, the same as `evokernel compare --json` prints."""
        return comparison_json(self.data)

    def tables(self) -> list[Table]:
        """Return the tables of runs, pairs and tasks, as data."""
        return [runs_table(self.data), pairs_table(self.data), tasks_table(self.data)]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ratio of best latencies for each task, and the geometric mean of each pair with its interval.

        Args:
            ax: Axes of matplotlib to draw on; a new figure by default.

        Returns:
            The axes. A notebook shows their figure.
        """
        rows = plot_rows(self.data)
        if not rows:
            raise UserError("nothing to draw: no task was solved and timed by both runs.")
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(figsize=(7, 1.2 + 0.32 * len(rows)), layout="constrained")
        first = self.data.runs[0].name
        for place, (_, low, mean, high, is_mean) in enumerate(reversed(rows)):
            ax.barh(place, mean - 1, left=1, color=MEAN_COLOR if is_mean else BAR_COLOR, height=0.6 if is_mean else 0.5)
            if low is not None and high is not None:
                ax.errorbar(mean, place, xerr=[[mean - low], [high - mean]], color="gray", capsize=4)
        ax.set_yticks(range(len(rows)), [label for label, *_ in reversed(rows)])
        ax.set_xscale("log")
        ax.axvline(1, color="black", linewidth=0.8)
        ax.set_xlabel(f"latency of {first} / latency (right of 1: faster than {first})")
        ax.set_title("Best kernels, with 95 % confidence intervals of the means")
        return ax


def plot_rows(data: RunComparison) -> list[tuple[str, float | None, float, float | None, bool]]:
    """Return label, lower bound, ratio, upper bound and whether it is a mean, for each bar of the plot."""
    rows: list[tuple[str, float | None, float, float | None, bool]] = []
    several = len(data.runs) > 2
    for other, pair in zip(data.runs[1:], data.pairs, strict=True):
        suffix = f" ({other.name})" if several else ""
        own = {result.task.id: result for result in other.results}
        for result in data.runs[0].results:
            if ratio := latency_ratio(result, own.get(result.task.id)):
                rows.append((result.task.id + suffix, None, ratio, None, False))
        if pair.speed:
            mean = pair.speed.interval.exp()
            has_interval = has_bounds(mean)
            rows.append((f"mean{suffix}", mean.low if has_interval else None, mean.mean, mean.high if has_interval else None, True))
    return rows


def compare(first: AnyRun, *others: AnyRun) -> Comparison:
    """Compare runs with the first one, paired by task: correct kernels, latency, attempts and cost.

    Args:
        first: A run, or the folder of one.
        *others: One to seven further runs.

    Returns:
        The comparison. A notebook shows its tables; `plot()` draws the ratios of the best latencies with intervals.

    Raises:
        UserError: A folder is not a run, a run is named twice, or the runs have no task in common.
    """
    runs = as_runs([first, *others])
    names = [one.folder.name for one in runs]
    labels = names if len(set(names)) == len(names) else [str(one.folder) for one in runs]
    return Comparison(compare_runs([open_run(label, one.data) for label, one in zip(labels, runs, strict=True)]))
