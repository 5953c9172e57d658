"""Draws the plots of a run's report page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evokernel.core.errors import UserError
from evokernel.core.records import Attempt
from evokernel.reports import formatting, metrics, round_plots
from evokernel.reports.metrics import TaskResult
from evokernel.reports.plots import (
    MAX_NAMED_TASKS,
    Draw,
    Plot,
    add_legend,
    draw_bars,
    draw_best_latencies,
    draw_q_values,
    draw_solved,
    save_plot,
)


def draw_run_plots(results: Sequence[TaskResult], attempts: Sequence[Attempt], folder: Path) -> list[Plot]:
    """Write every plot that has data to `folder`, as SVG and PNG."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [plot for plot in iterate_plots(results, attempts, folder) if plot]
    except OSError as error:
        raise UserError(
            f"cannot write plots to {folder}: {error.strerror or error}. Free some space, or choose another folder with --out."
        ) from error


def iterate_plots(results: Sequence[TaskResult], attempts: Sequence[Attempt], folder: Path) -> Iterator[Plot | None]:
    """Draw the plots one by one; None for a plot without data."""
    estimate = formatting.estimate_note(metrics.clock_names(attempts))
    base = formatting.baseline_label(metrics.baseline_names(results))
    clock_suffix = f"; {estimate}" if estimate else ""
    named_count = min(sum(result.is_solved for result in results), MAX_NAMED_TASKS)
    height = max(2.6, 0.24 * named_count + 0.9)
    note = "Number of tasks with a kernel that compiles, and with a correct kernel, after N attempts per task."
    yield save_plot(folder, "solved", "Tasks compiled and correct", note, 5.2, 3.2, lambda f, ax: draw_solved(ax, results))
    yield save_plot(
        folder,
        "best-latency",
        "Best latency over attempts",
        "Latency of the best kernel relative to the task's first correct kernel. Thin lines: tasks; thick line: median.",
        5.2,
        3.2,
        lambda f, ax: draw_best_latencies(ax, results, f"best / first correct{clock_suffix}"),
    )
    gains = {result.task.id: result.gain for result in results if result.gain}
    yield save_plot(
        folder,
        "gains",
        "Gain from first correct to best",
        "Latency of the first correct kernel divided by that of the best kernel, per operator.",
        5.2,
        height,
        lambda f, ax: draw_bars(ax, gains, f"gain, logarithmic{clock_suffix}"),
    )
    speedups = {result.task.id: result.speedup for result in results if result.speedup}
    yield save_plot(
        folder,
        "speedups",
        f"Speed-up over {base}",
        f"Best kernel of each operator. Above 1×: faster than {base}; hatched bars: slower.",
        5.2,
        height,
        lambda f, ax: draw_bars(ax, speedups, f"speed-up over {base}, logarithmic{clock_suffix}"),
    )
    note = "Share of each round's attempts that failed, by reason. Round N: the N-th attempts of all tasks."
    yield save_plot(folder, "failures", "Failures by round", note, 5.2, 3.4, failures_drawer(results))
    note = "Share of the memory items in each round's prompts, by the role in which the prompt shows them."
    yield save_plot(folder, "roles", "Memory items shown", note, 5.2, 3.4, roles_drawer(results))
    note = "Q (learned value) of the memory items in each round's prompts, when they were shown. Line: median; band: middle half."
    yield save_plot(folder, "value", "Value of shown memory items", note, 5.2, 3.4, values_drawer(results))
    yield save_plot(
        folder,
        "item-values",
        "Value of the most shown memory items",
        "Q (learned value) of an item when it was shown; solid: Q1 (drafting), dashed: Q2 (refining).",
        5.2,
        3.6,
        lambda f, ax: draw_q_values(f, ax, attempts),
    )
    note = "Cumulative over attempts: money if every model call has a price, otherwise tokens, otherwise verification time."
    yield save_plot(folder, "cost", "Cumulative cost", note, 5.2, 3.0, lambda f, ax: round_plots.draw_costs(ax, {"": results}))


def failures_drawer(results: Sequence[TaskResult]) -> Draw:
    """Return a function that draws failure shares by round."""
    stack = round_plots.stack_failures(results)
    return lambda figure, axes: round_plots.draw_stacked_bars(axes, stack, "attempts that failed, %") and add_legend_below(figure, axes)


def roles_drawer(results: Sequence[TaskResult]) -> Draw:
    """Return a function that draws shares of memory roles by round."""
    stack = round_plots.stack_roles(results)
    return lambda figure, axes: round_plots.draw_stacked_bars(axes, stack, "memories shown, %") and add_legend_below(figure, axes)


def values_drawer(results: Sequence[TaskResult]) -> Draw:
    """Return a function that draws quartiles of Q by round."""
    return lambda figure, axes: round_plots.draw_values(axes, results) and add_legend_below(figure, axes)


def add_legend_below(figure: Any, axes: Any) -> bool:
    """Add the legend of a figure with one pair of axes."""
    add_legend(figure, *axes.get_legend_handles_labels())
    return True
