"""Figure 6: whose memories were in the context when an operator was first solved, and whose in theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.reports import plots
from evokernel.reports.metrics import Tried
from evokernel.reports.plots import Plot
from evokernel.reports.tables import Column, Table, short_names

MOST_ROWS, MOST_NODES = 30, 24


class Solve(NamedTuple):
    """An operator's first solve, and the solved operators whose memories it was shown."""

    task: str
    round: int
    shown: tuple[str, ...]


def solves(tries: Sequence[Tried]) -> dict[str, Solve]:
    """Of every solved operator, in the order in which they were solved."""
    first = {tried.task.id: tried for tried in tries if tried.first}
    found = []
    for id, tried in first.items():
        assert tried.first
        sources = [source(ref.id) for ref in tried.first.shown_items if ref.id.startswith(f"{tried.first.run}:")]
        known = [one for one in dict.fromkeys(sources) if one != id and one in first and before(first[one], tried)]
        found.append(Solve(id, tried.first_round or 0, tuple(known)))
    return {solve.task: solve for solve in sorted(found, key=lambda solve: (solve.round, solve.task))}


def source(item: str) -> str:
    """The operator that a trace, or a note about it, is of."""
    return item.partition(":")[2].removesuffix("/note").rpartition("/")[0]


def before(one: Tried, other: Tried) -> bool:
    """Whether an operator had been solved when the other was: what was shown of it is a kernel that works."""
    return bool(one.first and other.first and one.first.round < other.first.round)


def lineage(found: Mapping[str, Solve], task: str) -> dict[str, int]:
    """An operator and everything it goes back to, with the shortest distance."""
    depth = {task: 0}
    waiting = [task]
    while waiting:
        one = waiting.pop(0)
        for other in found[one].shown:
            if other not in depth:
                depth[other] = depth[one] + 1
                waiting.append(other)
    return depth


def tables(found: Mapping[str, Sequence[Tried]]) -> list[Table]:
    made = []
    for arm, tries in found.items():
        known = solves(tries)
        names = short_names(list(known))
        columns = (Column("operator"), Column("first solve", "count"), Column("shown then"), Column("goes back to", "count"))
        ranked = sorted(known, key=lambda task: (-len(lineage(known, task)), task))[:MOST_ROWS]
        rows = []
        for task in ranked:
            said = ", ".join(f"{names[one]} ({known[one].round})" for one in known[task].shown)
            rows.append((names[task], known[task].round, said or None, len(lineage(known, task)) - 1))
        note = "Operators that were solved before, whose memories were shown at the first solve, with the attempt that solved them;"
        note += " and how many it goes back to, over all steps."
        more = f" The {len(ranked)} that go back to most, of {len(known)}." if len(known) > len(ranked) else ""
        made.append(Table(f"{arm}: who was shown at first solves", columns, tuple(rows), note + more))
    return made


def drawings(found: Mapping[str, Sequence[Tried]], folder: Path) -> list[Plot | None]:
    return [drawing(arm, solves(tries), folder) for arm, tries in found.items()]


def drawing(arm: str, known: Mapping[str, Solve], folder: Path) -> Plot | None:
    """The operator that goes back to most, and what it goes back to."""
    if not known:
        return None
    root = max(known, key=lambda task: (len(lineage(known, task)), task))
    depth = dict(sorted(lineage(known, root).items(), key=lambda pair: pair[1])[:MOST_NODES])
    title = f"What {root} goes back to: {arm}"
    return plots.save(folder, f"curriculum-{arm}", title, "", 7.2, 1.4 + 0.32 * len(depth), lambda _, axes: draw(axes, known, depth))


def draw(axes: Any, known: Mapping[str, Solve], depth: Mapping[str, int]) -> bool:
    """A row for each operator, at the attempt that solved it; arrows from what was shown."""
    names = short_names(list(known))
    ordered = sorted(depth, key=lambda task: (known[task].round, -depth[task], task))
    place = {task: len(ordered) - 1 - number for number, task in enumerate(ordered)}
    for task in ordered:
        for other in known[task].shown:
            if other in place:
                style = {"arrowstyle": "-|>", "color": plots.GREY, "linewidth": 0.8, "shrinkA": 5, "shrinkB": 5}
                axes.annotate("", (known[task].round, place[task]), (known[other].round, place[other]), arrowprops=style)
        is_root = depth[task] == 0
        axes.plot(known[task].round, place[task], "s" if is_root else "o", color=plots.ORANGE if is_root else plots.BLUE, markersize=7)
    axes.set_xlim(0.5, max(known[task].round for task in ordered) + 0.5)
    axes.set_ylim(-0.8, len(ordered) - 0.2)
    axes.set_yticks([place[task] for task in ordered], [names[task] for task in ordered])
    axes.set_xlabel("attempt of the first solve")
    plots.whole_ticks(axes.xaxis)
    return len(ordered) > 1
