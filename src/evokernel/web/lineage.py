"""The lineage tree of a task: which attempt was refined from which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from evokernel.core.records import Attempt
from evokernel.reports import formatting, tables
from evokernel.reports.metrics import TaskResult
from evokernel.web.svg import element, format_coordinate

MAX_NODES = 160
COLUMN_WIDTH, ROW_HEIGHT, GAP, BOX_HEIGHT = 124, 27, 20, 20


class TreePosition(NamedTuple):
    """The position of a node: the number of refinements since the draft, and its line."""

    depth: int
    row: int


def parent_numbers(attempts: Sequence[Attempt]) -> list[int | None]:
    """For each attempt the number of its start point, or None for a draft. A start point that is not older is ignored."""
    numbers = {attempt.id: number for number, attempt in enumerate(attempts)}
    parents = [numbers.get(attempt.start_point or "") for attempt in attempts]
    return [parent if parent is not None and parent < number else None for number, parent in enumerate(parents)]


def select_relatives(parents: Sequence[int | None], selected: int) -> list[int]:
    """The selected attempt, its ancestors, its descendants, and then the newest attempts, up to `MAX_NODES`."""
    ancestors = [selected]
    while (parent := parents[ancestors[-1]]) is not None:
        ancestors.append(parent)
    descendants = {selected}
    for number in range(selected + 1, len(parents)):
        if parents[number] in descendants:
            descendants.add(number)
    candidates = [*ancestors, *sorted(descendants - {selected}), *range(len(parents) - 1, -1, -1)]
    return sorted(dict.fromkeys(candidates[: MAX_NODES * 4]).keys() & set(list(dict.fromkeys(candidates))[:MAX_NODES]))


def layout_tree(parents: Sequence[int | None], numbers: Sequence[int]) -> dict[int, TreePosition]:
    """Positions of the nodes: depth runs to the right, every leaf has its own line, and a first child shares its parent's line."""
    children: dict[int | None, list[int]] = {}
    number_set = set(numbers)
    for number in numbers:
        parent = parents[number]
        children.setdefault(parent if parent in number_set else None, []).append(number)
    positions: dict[int, TreePosition] = {}
    stack = [(number, 0) for number in reversed(children.get(None, []))]
    row, is_first_row = -1, True
    while stack:
        number, depth = stack.pop()
        parent = parents[number]
        is_first_child = parent in number_set and children[parent][0] == number
        row += 0 if is_first_child and not is_first_row else 1
        is_first_row = False
        positions[number] = TreePosition(depth, row)
        stack += [(child, depth + 1) for child in reversed(children.get(number, []))]
    return positions


def draw_tree(result: TaskResult, selected: int | None, url_of: Callable[[int], str]) -> Markup | None:
    """The tree with a link on every node; None without attempts."""
    attempts = result.attempts
    if not attempts:
        return None
    parents = parent_numbers(attempts)
    numbers = (
        list(range(len(attempts)))
        if len(attempts) <= MAX_NODES
        else select_relatives(parents, selected if selected is not None else len(attempts) - 1)
    )
    positions = layout_tree(parents, numbers)
    marks = [
        draw_edge(positions[parent], position)
        for number, position in positions.items()
        if (parent := parents[number]) in positions and parent is not None
    ]
    best = result.best
    for number, position in positions.items():
        marks.append(draw_node(attempts[number], number, position, number == selected, attempts[number] is best, result, url_of(number)))
    width = (max(position.depth for position in positions.values()) + 1) * COLUMN_WIDTH + 8
    height = (max(position.row for position in positions.values()) + 1) * ROW_HEIGHT + 8
    label = f"Lineage of {formatting.format_count(len(numbers), 'attempt')}"
    return element(
        "svg", *marks, viewBox=f"0 0 {width} {height}", width=width, height=height, class_="tree", role="group", aria_label=label
    )


def node_corner(position: TreePosition) -> tuple[float, float]:
    """Pixel coordinates of the upper left corner of a node."""
    return position.depth * COLUMN_WIDTH + 4, position.row * ROW_HEIGHT + 4


def draw_edge(start: TreePosition, end: TreePosition) -> Markup:
    """The line from a start point to its refinement."""
    (x1, y1), (x2, y2) = node_corner(start), node_corner(end)
    x1, y1, y2 = x1 + COLUMN_WIDTH - GAP, y1 + BOX_HEIGHT / 2, y2 + BOX_HEIGHT / 2
    bend = x1 + GAP / 2
    return element(
        "path",
        d=f"M{format_coordinate(x1)} {format_coordinate(y1)}H{format_coordinate(bend)}V{format_coordinate(y2)}H{format_coordinate(x2)}",
        class_="edge",
    )


def draw_node(
    attempt: Attempt, number: int, position: TreePosition, is_selected: bool, is_best: bool, result: TaskResult, url: str
) -> Markup:
    """A box with the attempt's number and its outcome."""
    x, y = node_corner(position)
    is_correct = result.is_correct(attempt)
    outcome_text = (
        formatting.format_latency(attempt.outcome.latency_us)
        if is_correct
        else tables.failure_reason(attempt.outcome)
        if attempt.outcome.failure
        else "failed re-evaluation"
    )
    text = f"{number + 1} {outcome_text}"
    text = text if len(text) <= 17 else text[:16] + "…"
    description = f"attempt {number + 1}: {attempt.stage.value}, {outcome_text}, reward {attempt.reward:+.2f}" + (
        ", best attempt" if is_best else ""
    )
    classes = " ".join(["node", "correct" if is_correct else "failed", *["chosen"] * is_selected, *["best"] * is_best])
    box = element("rect", x=format_coordinate(x), y=format_coordinate(y), width=COLUMN_WIDTH - GAP, height=BOX_HEIGHT, rx=4)
    group = element(
        "g",
        element("title", description),
        box,
        element("text", text, x=format_coordinate(x + 6), y=format_coordinate(y + 14)),
        class_=classes,
    )
    return element("a", group, href=url, aria_label=description) if url else group


def children_by_parent(parents: Sequence[int | None]) -> Mapping[int, list[int]]:
    """The attempts refined from each attempt."""
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(parents):
        if parent is not None:
            children.setdefault(parent, []).append(number)
    return children
