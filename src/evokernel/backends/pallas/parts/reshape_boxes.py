"""Which box of an array holds a box of its reshape: so that a reshape is read as a few copies instead of element by element."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

Box = tuple[tuple[int, int], ...]
MAX_SURPLUS = 8
"""A box of the operand may have this many times the elements that are needed of it."""


class DimensionGroup(NamedTuple):
    """Consecutive dimensions of an operand and of its reshape with equally many elements."""

    operand: slice
    result: slice


class GroupBox(NamedTuple):
    """The part of a box in one group of dimensions."""

    source: Box
    """Bounds of the operand's dimensions; its elements are consecutive in the group."""
    first: int
    """The place in `source` of the first element of `grown`."""
    grown: tuple[int, ...]
    """Extents in the result's dimensions, grown until the elements are consecutive."""
    inner: tuple[slice, ...]
    """The place of the wanted elements in `grown`."""


class ReshapedBox(NamedTuple):
    """A box of an operand that holds all elements of a box of its reshape."""

    source: Box
    groups: tuple[GroupBox, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the box of the operand has no other elements."""
        return all(
            group.first == 0
            and count_elements(group.source) == math.prod(group.grown)
            and all(part == slice(0, size) for part, size in zip(group.inner, group.grown))
            for group in self.groups
        )

    def arrange(self, values: np.ndarray) -> np.ndarray:
        """The wanted elements of the operand's box, in the shape of the result's box."""
        values = values.reshape([count_elements(group.source) for group in self.groups])
        values = values[tuple(slice(group.first, group.first + math.prod(group.grown)) for group in self.groups)]
        values = values.reshape([size for group in self.groups for size in group.grown])
        return values[tuple(part for group in self.groups for part in group.inner)]


def find_reshaped_box(operand: Sequence[int], result: Sequence[int], box: Box) -> ReshapedBox | None:
    """The box of an operand for a box of its reshape; None if it would be much larger than what is needed of it."""
    if 0 in operand or any(first >= last for first, last in box):
        return None
    groups = tuple(
        find_group_box(tuple(operand[group.operand]), tuple(result[group.result]), box[group.result])
        for group in match_dimensions(operand, result)
    )
    source = tuple(bounds for group in groups for bounds in group.source)
    return None if count_elements(source) > MAX_SURPLUS * count_elements(box) else ReshapedBox(source, groups)


def match_dimensions(operand: Sequence[int], result: Sequence[int]) -> Iterator[DimensionGroup]:
    """The smallest groups of dimensions between which a reshape moves elements."""
    first, other = 0, 0
    while first < len(operand) or other < len(result):
        last, end = first + (first < len(operand)), other + (other < len(result))
        while math.prod(operand[first:last]) != math.prod(result[other:end]):
            if math.prod(operand[first:last]) < math.prod(result[other:end]):
                last += 1
            else:
                end += 1
        yield DimensionGroup(slice(first, last), slice(other, end))
        first, other = last, end


def find_group_box(operand: tuple[int, ...], result: tuple[int, ...], box: Box) -> GroupBox:
    """The box of the operand's dimensions in one group."""
    axis = next((i for i, (first, last) in enumerate(box) if last - first > 1), len(box))
    grown = (*box[: axis + 1], *((0, size) for size in result[axis + 1 :]))  # consecutive elements
    inner = tuple(slice(first - start, last - start) for (first, last), (start, _) in zip(box, grown))
    start = int(np.ravel_multi_index([first for first, _ in grown], result)) if result else 0
    stop = start + count_elements(grown)
    if not operand:
        return GroupBox((), 0, tuple(last - first for first, last in grown), inner)
    low, high = (tuple(int(i) for i in np.unravel_index(element, operand)) for element in (start, stop - 1))
    axis = next((i for i, (a, b) in enumerate(zip(low, high)) if a != b), len(operand) - 1)
    source = (*((a, b + 1) for a, b in zip(low[: axis + 1], high)), *((0, size) for size in operand[axis + 1 :]))
    begin = int(np.ravel_multi_index([first for first, _ in source], operand))
    return GroupBox(source, start - begin, tuple(last - first for first, last in grown), inner)


def count_elements(box: Sequence[tuple[int, int]]) -> int:
    """The number of elements of a box."""
    return math.prod(last - first for first, last in box)
