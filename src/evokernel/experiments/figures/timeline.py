"""Figure 4: for each operator, when it was first solved, when its best kernel improved, and its final speed over the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from pathlib import Path
from typing import Any

from evokernel.reports import formatting, metrics, plots
from evokernel.reports.metrics import TaskResult
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Column, Table, shorten_task_names


def improvement_steps(result: TaskResult) -> list[tuple[int, float]]:
    """Return the first correct attempt and every later one that was faster than the best so far, with latencies."""
    steps: list[tuple[int, float]] = []
    for number, latency_us in enumerate(result.best_latencies(), start=1):
        if latency_us is not None and (not steps or latency_us < steps[-1][1]):
            steps.append((number, latency_us))
    return steps


def build_tables(results: Mapping[str, Sequence[TaskResult]]) -> list[Table]:
    """Return the timeline of every operator, for each arm."""
    tables = []
    for arm, task_results in results.items():
        names = shorten_task_names([result.task.id for result in task_results])
        baseline = formatting.baseline_label(metrics.baseline_names(task_results))
        columns = (
            Column("operator"),
            Column("first solve", "count", explanation="number of the first correct attempt on the operator, from 1"),
            Column("best improved at", explanation="later attempts that were faster than the best so far"),
            Column("first correct", "us"),
            Column("best", "us"),
            Column("speed-up", "ratio", explanation=f"of the best kernel over {baseline} (above 1×: the kernel is faster)"),
        )
        rows = []
        for result in task_results:
            path = improvement_steps(result)
            later = ", ".join(str(number) for number, _ in path[1:])
            best = result.best_outcome.latency_us if result.best_outcome else None
            rows.append(
                (names[result.task.id], result.first_correct_round, later or None, path[0][1] if path else None, best, result.speedup)
            )
        tables.append(Table(f"{arm}: timelines", columns, tuple(rows)))
    return tables


def draw_plots(results: Mapping[str, Sequence[TaskResult]], folder: Path) -> list[Plot | None]:
    """Draw the timelines of every arm."""
    return [draw_arm(arm, task_results, folder) for arm, task_results in results.items()]


def draw_arm(arm: str, task_results: Sequence[TaskResult], folder: Path) -> Plot | None:
    """Draw the timelines of one arm, at most `MAX_NAMED_TASKS`."""
    drawn_results = list(task_results)[: plots.MAX_NAMED_TASKS]
    height = 1.3 + 0.26 * len(drawn_results)
    return plots.save_plot(
        folder, f"timeline-{arm}", f"Timelines: {arm}", "", 8.4, height, lambda figure, axes: draw_timelines(figure, axes, drawn_results)
    )


def draw_timelines(figure: Any, axes: Any, task_results: Sequence[TaskResult]) -> bool:
    """Draw the timeline and the final speed-up of each operator in two panels with common rows."""
    if not any(result.attempts for result in task_results):
        return False
    axes.remove()
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    names = shorten_task_names([result.task.id for result in task_results])
    longest = max((len(result.attempts) for result in task_results), default=0)
    for row, result in enumerate(reversed(task_results)):
        path = improvement_steps(result)
        left.plot([1, max(longest, 1)], [row, row], color=plots.GREY, linewidth=0.4)
        if path:
            left.plot([number for number, _ in path], [row] * len(path), color=plots.GREY, linewidth=1.2)
            left.plot([number for number, _ in path[1:-1]], [row] * len(path[1:-1]), "|", color=plots.INK, markersize=7)
            left.plot(path[0][0], row, "o", markerfacecolor="none", markeredgecolor=plots.ORANGE, markersize=6)
            left.plot(path[-1][0], row, "*", color=plots.BLUE, markersize=7)
            text = formatting.format_latency(result.best_outcome.latency_us if result.best_outcome else path[-1][1])
            left.annotate(text, (longest, row), (6, 0), textcoords="offset points", va="center", size=7)
        if result.speedup:
            colour = {"color": plots.BLUE} if result.speedup >= 1 else {"facecolor": "none", "edgecolor": plots.ORANGE, "hatch": "////"}
            right.barh(row, log2(result.speedup), height=0.6, **colour)
    left.set_yticks(range(len(task_results)), [names[result.task.id] for result in reversed(task_results)])
    left.set_xlim(0.5, longest * 1.16 + 0.5)
    left.set_xlabel("attempts: ○ first solve, | best improved, ★ best")
    plots.use_integer_ticks(left.xaxis)
    right.axvline(0, color=plots.INK, linewidth=0.8)
    right.set_xlabel(f"log2 of speed-up over\n{formatting.baseline_label(metrics.baseline_names(task_results))}")
    return True
