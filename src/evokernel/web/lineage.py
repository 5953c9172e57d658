"""The tree of a task's attempts: who was refined from whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from evokernel.core.records import Attempt
from evokernel.reports import formatting, tables
from evokernel.reports.metrics import Tried
from evokernel.web.svg import at, el

MOST_NODES = 160
WIDE, HIGH, GAP, BOX = 124, 27, 20, 20


class Place(NamedTuple):
    """Where a node stands: how many refinements from a draft, and on which line."""

    depth: int
    row: int


def parents(attempts: Sequence[Attempt]) -> list[int | None]:
    """The number of the attempt that each was refined from; a start that is not older is no start."""
    numbers = {attempt.id: number for number, attempt in enumerate(attempts)}
    found = [numbers.get(attempt.start_point or "") for attempt in attempts]
    return [start if start is not None and start < number else None for number, start in enumerate(found)]


def kin(starts: Sequence[int | None], chosen: int) -> list[int]:
    """An attempt, what it goes back to, what was made from it, and then the newest, as many as can be drawn."""
    wanted = [chosen]
    while (start := starts[wanted[-1]]) is not None:
        wanted.append(start)
    below = {chosen}
    for number in range(chosen + 1, len(starts)):
        if starts[number] in below:
            below.add(number)
    ranked = [*wanted, *sorted(below - {chosen}), *range(len(starts) - 1, -1, -1)]
    return sorted(dict.fromkeys(ranked[: MOST_NODES * 4]).keys() & set(list(dict.fromkeys(ranked))[:MOST_NODES]))


def laid_out(starts: Sequence[int | None], shown: Sequence[int]) -> dict[int, Place]:
    """Depth to the right, a line for every end; a first child stands on its parent's line."""
    children: dict[int | None, list[int]] = {}
    known = set(shown)
    for number in shown:
        start = starts[number]
        children.setdefault(start if start in known else None, []).append(number)
    places: dict[int, Place] = {}
    waiting = [(number, 0) for number in reversed(children.get(None, []))]
    row, fresh = -1, True
    while waiting:
        number, depth = waiting.pop()
        start = starts[number]
        first = start in known and children[start][0] == number
        row += 0 if first and not fresh else 1
        fresh = False
        places[number] = Place(depth, row)
        waiting += [(child, depth + 1) for child in reversed(children.get(number, []))]
    return places


def drawn(tried: Tried, chosen: int | None, address: Callable[[int], str]) -> Markup | None:
    """The tree, every node a link; None without attempts."""
    attempts = tried.attempts
    if not attempts:
        return None
    starts = parents(attempts)
    shown = list(range(len(attempts))) if len(attempts) <= MOST_NODES else kin(starts, chosen if chosen is not None else len(attempts) - 1)
    places = laid_out(starts, shown)
    marks = [edge(places[start], place) for number, place in places.items() if (start := starts[number]) in places and start is not None]
    best = tried.best
    for number, place in places.items():
        marks.append(node(attempts[number], number, place, number == chosen, attempts[number] is best, tried, address(number)))
    width = (max(place.depth for place in places.values()) + 1) * WIDE + 8
    height = (max(place.row for place in places.values()) + 1) * HIGH + 8
    label = f"Lineage of {len(shown)} attempts"
    return el("svg", *marks, viewBox=f"0 0 {width} {height}", width=width, height=height, class_="tree", role="group", aria_label=label)


def corner(place: Place) -> tuple[float, float]:
    return place.depth * WIDE + 4, place.row * HIGH + 4


def edge(start: Place, end: Place) -> Markup:
    (x1, y1), (x2, y2) = corner(start), corner(end)
    x1, y1, y2 = x1 + WIDE - GAP, y1 + BOX / 2, y2 + BOX / 2
    bend = x1 + GAP / 2
    return el("path", d=f"M{at(x1)} {at(y1)}H{at(bend)}V{at(y2)}H{at(x2)}", class_="edge")


def node(attempt: Attempt, number: int, place: Place, is_chosen: bool, is_best: bool, tried: Tried, address: str) -> Markup:
    """A box with the attempt's number and what came of it."""
    x, y = corner(place)
    right = tried.is_correct(attempt)
    what = (
        formatting.latency(attempt.outcome.latency_us)
        if right
        else tables.why(attempt.outcome)
        if attempt.outcome.failure
        else "fell later"
    )
    text = f"{number} {what}"
    text = text if len(text) <= 17 else text[:16] + "…"
    told = f"attempt {number}: {attempt.stage.value}, {what}, reward {attempt.reward:+.2f}" + (", the best" if is_best else "")
    classes = " ".join(["node", "correct" if right else "failed", *["chosen"] * is_chosen, *["best"] * is_best])
    box = el("rect", x=at(x), y=at(y), width=WIDE - GAP, height=BOX, rx=4)
    mark = el("g", el("title", told), box, el("text", text, x=at(x + 6), y=at(y + 14)), class_=classes)
    return el("a", mark, href=address, aria_label=told) if address else mark


def children_of(starts: Sequence[int | None]) -> Mapping[int, list[int]]:
    """What was refined from each attempt."""
    found: dict[int, list[int]] = {}
    for number, start in enumerate(starts):
        if start is not None:
            found.setdefault(start, []).append(number)
    return found
