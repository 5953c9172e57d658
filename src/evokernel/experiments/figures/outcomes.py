"""Figure 2: correctness and speed by category, and the gain from refinement for each operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evokernel.reports import formatting, metrics, plots
from evokernel.reports.metrics import TaskResult
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Column, Table, shorten_task_names

TIERS = ((1.0, "as fast or faster"), (0.8, "0.8 to 1"), (0.5, "0.5 to 0.8"), (0.0, "below 0.5"))
"""Lower bounds of the speed relative to the baseline, in descending order."""
SHADES = ("#1b4f72", "#2f7fc1", "#9cc4e4", "#e3e6ea")
MAX_PATHS = 4


def speed_tier(result: TaskResult) -> int | None:
    """Return the index of the tier of an operator's best kernel; None if none was timed."""
    if result.speedup is None:
        return None
    return next(number for number, (lower_bound, _) in enumerate(TIERS) if result.speedup >= lower_bound)


def build_tables(results: Mapping[str, Sequence[TaskResult]]) -> list[Table]:
    """Return for each arm correctness, speed tiers and refinement gains by category."""
    tables = []
    for arm, task_results in results.items():
        rows = [category_row(name, members) for name, members in metrics.group_by_category(task_results).items()]
        base = formatting.baseline_label(metrics.baseline_names(task_results))
        columns = (
            Column("category"),
            Column("operators", "count"),
            Column("correct", "share", explanation="share of operators with a correct kernel"),
            *(Column(f"{label} ×", "count") for _, label in TIERS),
            Column("first→best, median", "ratio", explanation="latency of first correct / best kernel"),
        )
        gains = refinement_gains(task_results)
        quartiles = metrics.quartiles(gains)
        note = f"Columns with ×: number of operators by the speed of the best kernel relative to {base}; above 1 is faster."
        if quartiles:
            low, high = formatting.format_digits(quartiles.low), formatting.format_digits(quartiles.high)
            note += f" First correct to best: median {formatting.format_ratio(quartiles.median)}, middle half {low} to {high}"
            note += f" (n = {len(gains)} operators with several correct kernels)."
        tables.append(Table(f"{arm}: by category", columns, (*rows, category_row("all", task_results)), note))
    return tables


def category_row(name: str, task_results: Sequence[TaskResult]) -> tuple[Any, ...]:
    """Return the cells of one category."""
    tiers = [speed_tier(result) for result in task_results]
    gains = metrics.quartiles(refinement_gains(task_results))
    counts = [tiers.count(number) for number in range(len(TIERS))]
    return (
        name,
        len(task_results),
        sum(result.is_solved for result in task_results) / len(task_results),
        *counts,
        gains.median if gains else None,
    )


def refinement_gains(task_results: Sequence[TaskResult]) -> list[float]:
    """Return the gains of operators with more than one correct kernel; others had no chance to gain."""
    return [result.gain for result in task_results if len(result.correct_attempts) > 1 and result.gain]


def draw_arm(arm: str, task_results: Sequence[TaskResult], folder: Path) -> list[Plot | None]:
    """Draw the speed tiers, the gains, and the largest improvements of one arm."""
    base = formatting.baseline_label(metrics.baseline_names(task_results))
    by_category = metrics.group_by_category(task_results)
    height = 1.2 + 0.3 * len(by_category)
    return [
        plots.save_plot(
            folder,
            f"tiers-{arm}",
            f"Correct kernels and their speed relative to {base}: {arm}",
            "",
            6.4,
            height,
            lambda _, axes: draw_tier_bars(axes, by_category),
        ),
        plots.save_plot(
            folder,
            f"gains-{arm}",
            f"Gain from first correct to best kernel, by operator: {arm}",
            "",
            5.6,
            3.2,
            lambda _, axes: draw_sorted_gains(axes, task_results),
        ),
        plots.save_plot(
            folder,
            f"paths-{arm}",
            f"Best latency so far, operators with the largest gains: {arm}",
            "",
            5.6,
            3.4,
            lambda figure, axes: draw_best_latencies(figure, axes, task_results),
        ),
    ]


def draw_tier_bars(axes: Any, by_category: Mapping[str, Sequence[TaskResult]]) -> bool:
    """Draw the shares of speed tiers for each category; the rest to 100 % has no correct kernel that was timed."""
    names = list(by_category)[::-1]
    left = [0.0] * len(names)
    for number, (_, label) in enumerate(TIERS):
        shares = [100 * sum(speed_tier(result) == number for result in by_category[name]) / len(by_category[name]) for name in names]
        axes.barh(
            names, shares, left=left, color=SHADES[number], edgecolor=plots.INK, linewidth=0.5, hatch=plots.HATCHES[number], label=label
        )
        left = [before + share for before, share in zip(left, shares)]
    axes.set_xlim(0, 100)
    axes.set_xlabel("operators, % (blank: none correct, or not timed)")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(TIERS), fontsize=8)
    return any(left)


def draw_sorted_gains(axes: Any, task_results: Sequence[TaskResult]) -> bool:
    """Draw the gains of all operators in ascending order."""
    gains = sorted(refinement_gains(task_results))
    if not gains:
        return False
    quartiles = metrics.quartiles(gains)
    assert quartiles
    axes.plot(range(1, len(gains) + 1), gains, color=plots.BLUE, marker=".", linestyle="-", linewidth=0.8)
    label = f"median {formatting.format_ratio(quartiles.median)}"
    axes.axhline(quartiles.median, color=plots.ORANGE, linestyle="--", linewidth=1, label=label)
    axes.axhspan(quartiles.low, quartiles.high, color=plots.GREY, alpha=0.15, label="middle half")
    plots.set_ratio_axis(axes.yaxis)
    axes.set_ylim(min(gains[0], 1) / 1.1, max(gains[-1], 2) * 1.15)
    plots.use_integer_ticks(axes.xaxis)
    axes.set_xlabel("operators, sorted")
    axes.set_ylabel("first correct / best latency")
    axes.legend(frameon=False, loc="upper left")
    return True


def draw_best_latencies(figure: Any, axes: Any, task_results: Sequence[TaskResult]) -> bool:
    """Draw the best latency over attempts of the operators with the largest gains."""
    improved = [result for result in task_results if len(result.correct_attempts) > 1 and result.gain]
    best = sorted(improved, key=lambda result: -(result.gain or 0.0))[:MAX_PATHS]
    names = shorten_task_names([result.task.id for result in best])
    for order, result in enumerate(best):
        latencies = [(number, latency) for number, latency in enumerate(result.best_latencies(), start=1) if latency is not None]
        points = [(number, latency / latencies[0][1]) for number, latency in latencies]
        axes.step(*zip(*points), where="post", label=names[result.task.id], **plots.line_style(order, len(points)))
    if not best:
        return False
    plots.set_ratio_axis(axes.yaxis)
    plots.use_integer_ticks(axes.xaxis)
    axes.set_xlabel("attempts per operator")
    axes.set_ylabel("best / first correct latency")
    plots.add_legend(figure, *axes.get_legend_handles_labels())
    return True


def draw_plots(results: Mapping[str, Sequence[TaskResult]], folder: Path) -> list[Plot | None]:
    """Draw the plots of every arm."""
    return [plot for arm, task_results in results.items() for plot in draw_arm(arm, task_results, folder)]
