"""The plots of a run's page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evokernel.core.errors import UserError
from evokernel.core.records import Attempt
from evokernel.reports import formatting, metrics, round_plots
from evokernel.reports.metrics import Tried
from evokernel.reports.plots import MOST_NAMED, Draw, Plot, bars, legend, save, solved, trajectories, values


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
    made_up = formatting.estimate_note(metrics.clocks(attempts))
    base = formatting.baseline_label(metrics.baselines(found))
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
    yield save(folder, "failures", "Failures by round", "Share of a round's attempts.", 5.2, 3.4, failures(found))
    note = "Share of what a round's attempts were shown, by what it was shown as."
    yield save(folder, "roles", "What was retrieved", note, 5.2, 3.4, roles(found))
    note = "Q of everything that was shown in a round, at that moment: the middle, and the middle half around it."
    yield save(folder, "worth", "Value of what was shown", note, 5.2, 3.4, worth(found))
    yield save(
        folder,
        "values",
        "Value of the most shown memories",
        "Q at the moment an item was shown; solid Q1 (drafting), dashed Q2 (refining).",
        5.2,
        3.6,
        lambda f, ax: values(f, ax, attempts),
    )
    note = "Added up over attempts: money where every call has a price, else tokens, else time of verification."
    yield save(folder, "spent", "Cost over time", note, 5.2, 3.0, lambda f, ax: round_plots.spent(ax, {"": found}))


def failures(found: Sequence[Tried]) -> Draw:
    stack = round_plots.failures(found)
    return lambda figure, axes: round_plots.stacked(axes, stack, "attempts that failed, %") and below(figure, axes)


def roles(found: Sequence[Tried]) -> Draw:
    stack = round_plots.roles(found)
    return lambda figure, axes: round_plots.stacked(axes, stack, "memories shown, %") and below(figure, axes)


def worth(found: Sequence[Tried]) -> Draw:
    return lambda figure, axes: round_plots.worth(axes, found) and below(figure, axes)


def below(figure: Any, axes: Any) -> bool:
    """The legend of the only axes."""
    legend(figure, *axes.get_legend_handles_labels())
    return True
