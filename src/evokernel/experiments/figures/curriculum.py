"""Figure 6: the operators whose memory items were in the prompt when an operator was first solved, and theirs in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.memory_ids import split_trace_id, task_of_attempt
from evokernel.reports import plots
from evokernel.reports.metrics import TaskResult
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Column, Table, shorten_task_names

MAX_ROWS, MAX_NODES = 30, 24


class FirstSolve(NamedTuple):
    """An operator's first correct attempt, and the solved operators whose memory items its prompt contained."""

    task: str
    round: int
    shown_tasks: tuple[str, ...]


def find_first_solves(task_results: Sequence[TaskResult]) -> dict[str, FirstSolve]:
    """Return the first solve of every solved operator, in the order of their rounds."""
    first = {result.task.id: result for result in task_results if result.first_correct}
    solves = []
    for id, result in first.items():
        assert result.first_correct
        sources = [source_task(ref.id) for ref in result.first_correct.shown_items if ref.id.startswith(f"{result.first_correct.run}:")]
        teachers = [one for one in dict.fromkeys(sources) if one != id and one in first and is_solved_before(first[one], result)]
        solves.append(FirstSolve(id, result.first_correct_round or 0, tuple(teachers)))
    return {solve.task: solve for solve in sorted(solves, key=lambda solve: (solve.round, solve.task))}


def source_task(item: str) -> str:
    """Return the operator of a trace, or of a note about it."""
    return task_of_attempt(split_trace_id(item)[1])


def is_solved_before(one: TaskResult, other: TaskResult) -> bool:
    """Whether one operator was solved before the other: then its memory items contain a correct kernel."""
    return bool(one.first_correct and other.first_correct and one.first_correct.round < other.first_correct.round)


def trace_lineage(solves: Mapping[str, FirstSolve], task: str) -> dict[str, int]:
    """Return an operator and all operators that it builds on, directly or not, with the shortest distance."""
    depth = {task: 0}
    queue = [task]
    while queue:
        one = queue.pop(0)
        for other in solves[one].shown_tasks:
            if other not in depth:
                depth[other] = depth[one] + 1
                queue.append(other)
    return depth


def build_tables(results: Mapping[str, Sequence[TaskResult]]) -> list[Table]:
    """Return for each arm the operators whose memory items were shown at first solves."""
    tables = []
    for arm, task_results in results.items():
        solves = find_first_solves(task_results)
        names = shorten_task_names(list(solves))
        columns = (
            Column("operator"),
            Column("first solve", "count", explanation="number of its first correct attempt, from 1"),
            Column("shown then", explanation="solved operators whose memory items its prompt contained, with their first solves"),
            Column("builds on", "count", explanation="number of operators that it builds on, directly or not"),
        )
        largest = sorted(solves, key=lambda task: (-len(trace_lineage(solves, task)), task))[:MAX_ROWS]
        rows = []
        for task in largest:
            shown = ", ".join(f"{names[one]} ({solves[one].round})" for one in solves[task].shown_tasks)
            rows.append((names[task], solves[task].round, shown or None, len(trace_lineage(solves, task)) - 1))
        is_shortened = len(solves) > len(largest)
        note = f"The {len(largest)} of {len(solves)} operators that build on the most others." if is_shortened else ""
        tables.append(Table(f"{arm}: operators shown at first solves", columns, tuple(rows), note))
    return tables


def draw_plots(results: Mapping[str, Sequence[TaskResult]], folder: Path) -> list[Plot | None]:
    """Draw one lineage for each arm."""
    return [draw_arm(arm, find_first_solves(task_results), folder) for arm, task_results in results.items()]


def draw_arm(arm: str, solves: Mapping[str, FirstSolve], folder: Path) -> Plot | None:
    """Draw the operator that builds on the most others, with its lineage."""
    if not solves:
        return None
    root = max(solves, key=lambda task: (len(trace_lineage(solves, task)), task))
    depth = dict(sorted(trace_lineage(solves, root).items(), key=lambda pair: pair[1])[:MAX_NODES])
    title = f"Operators that {root} builds on: {arm}"
    return plots.save_plot(
        folder, f"curriculum-{arm}", title, "", 7.2, 1.4 + 0.32 * len(depth), lambda _, axes: draw_lineage(axes, solves, depth)
    )


def draw_lineage(axes: Any, solves: Mapping[str, FirstSolve], depth: Mapping[str, int]) -> bool:
    """Draw a row for each operator at the attempt that solved it, with arrows from the operators shown to it."""
    names = shorten_task_names(list(solves))
    order = sorted(depth, key=lambda task: (solves[task].round, -depth[task], task))
    row = {task: len(order) - 1 - number for number, task in enumerate(order)}
    for task in order:
        for other in solves[task].shown_tasks:
            if other in row:
                style = {"arrowstyle": "-|>", "color": plots.GREY, "linewidth": 0.8, "shrinkA": 5, "shrinkB": 5}
                axes.annotate("", (solves[task].round, row[task]), (solves[other].round, row[other]), arrowprops=style)
        is_root = depth[task] == 0
        axes.plot(solves[task].round, row[task], "s" if is_root else "o", color=plots.ORANGE if is_root else plots.BLUE, markersize=7)
    axes.set_xlim(0.5, max(solves[task].round for task in order) + 0.5)
    axes.set_ylim(-0.8, len(order) - 0.2)
    axes.set_yticks([row[task] for task in order], [names[task] for task in order])
    axes.set_xlabel("first correct attempt")
    plots.use_integer_ticks(axes.xaxis)
    return len(order) > 1
