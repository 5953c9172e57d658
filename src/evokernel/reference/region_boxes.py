"""Boxes of tensors: one half-open range of indices per axis."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

Range = tuple[int, int]
Box = tuple[Range, ...]
Shape = tuple[int, ...]


def make_full_box(shape: Sequence[int]) -> Box:
    """Return the box that covers a whole tensor."""
    return tuple((0, size) for size in shape)


def measure_box(box: Box) -> Shape:
    """Return the shape of a box."""
    return tuple(stop - start for start, stop in box)


def count_elements(box: Box) -> int:
    """Return the number of elements in a box."""
    return math.prod(stop - start for start, stop in box)


def to_slices(box: Box) -> tuple[slice, ...]:
    """Return the slices that select a box."""
    return tuple(slice(start, stop) for start, stop in box)


def shift_box(box: Box, origin: Box) -> Box:
    """Return a box relative to the start of another that contains it."""
    return tuple((start - base, stop - base) for (start, stop), (base, _) in zip(box, origin, strict=True))


def intersect_ranges(first: Range, second: Range) -> Range:
    """Return the common part of two ranges; its length is zero if they do not meet."""
    start = max(first[0], second[0])
    return start, max(start, min(first[1], second[1]))


def contains_box(outer: Box, inner: Box) -> bool:
    """Whether one box lies completely inside another."""
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def broadcast_box(box: Box, shape: Sequence[int]) -> Box:
    """Return the part of an operand of this shape that is broadcast to a box of the result."""
    tail = box[len(box) - len(shape) :]
    return tuple((0, 1) if size == 1 else one for one, size in zip(tail, shape, strict=True))


def split_box(box: Box, max_elements: int) -> Iterator[Box]:
    """Cut a box into row-major pieces of at most this many elements, in order."""
    inner = 1
    steps = []
    for start, stop in reversed(box):
        step = max(1, min(stop - start, max_elements // inner))
        steps.append(step)
        inner *= max(1, stop - start)
    ranges = [
        [(at, min(at + step, stop)) for at in range(start, stop, step)] for (start, stop), step in zip(box, reversed(steps), strict=True)
    ]
    yield from itertools.product(*ranges)


def halve_box(box: Box) -> tuple[Box, Box]:
    """Cut a box in two along its longest axis."""
    axis = max(range(len(box)), key=lambda i: box[i][1] - box[i][0])
    start, stop = box[axis]
    middle = (start + stop) // 2
    return (*box[:axis], (start, middle), *box[axis + 1 :]), (*box[:axis], (middle, stop), *box[axis + 1 :])


def remove_contained_boxes(boxes: Iterable[Box]) -> list[Box]:
    """Return the boxes that lie in no other one, the largest first."""
    kept_boxes: list[Box] = []
    for box in sorted(set(boxes), key=lambda one: (-count_elements(one), one)):
        if count_elements(box) and not any(contains_box(other, box) for other in kept_boxes):
            kept_boxes.append(box)
    return kept_boxes
