"""A wrong output in a few numbers, for every comparison: how much is wrong, where, the first elements, and the likely cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

SHOWN_ELEMENTS = 5
"""Wrong elements that a message lists."""
VISIBLE_SIZES = ("small", "laptop", "bench")
NEAR_MISS_SHARE = 0.01
"""An element within this share of (|expected| + rms) is nearly correct."""


class WrongElement(NamedTuple):
    """One wrong element, with its values as text."""

    place: tuple[int, ...]
    expected: str
    actual: str


class OutputDifference(NamedTuple):
    """Where and how an output differs from the reference."""

    name: str
    shape: tuple[int, ...]
    wrong_count: int
    unwritten_count: int
    """Wrong elements that still hold the bits from before the call."""
    nan_count: int
    """Wrong elements that are NaN where the reference has a number, unwritten ones excluded."""
    box: tuple[tuple[int, int], ...]
    """The smallest and the largest index of a wrong element along each dimension."""
    worst: WrongElement | None
    """The element with the largest finite error."""
    first: tuple[WrongElement, ...]
    is_near_miss: bool
    """Whether all wrong elements are nearly correct."""
    cause: str
    """The likely cause; an empty text if none is known."""

    @property
    def reason(self) -> str:
        """The reason word of the failure."""
        return "unwritten" if self.unwritten_count else "nan" if self.nan_count else "mismatch"

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> OutputDifference:
        """Return the record of a JSON object that another process wrote."""

        def read_element(values: Sequence[Any]) -> WrongElement:
            return WrongElement(tuple(values[0]), str(values[1]), str(values[2]))

        worst = read_element(fields["worst"]) if fields["worst"] else None
        lists = {"shape": tuple(fields["shape"]), "box": tuple((low, high) for low, high in fields["box"])}
        return cls(**{**fields, **lists, "worst": worst, "first": tuple(map(read_element, fields["first"]))})


def is_hidden(size: str) -> bool:
    """Whether a size must not be revealed to the generator."""
    return size not in VISIBLE_SIZES


def describe_output_difference(difference: OutputDifference, size: str, shapes: str, kind: str = "own") -> str:
    """Describe how much of an output is wrong, where, and how; leave out indices and shapes that would reveal a hidden size."""
    hidden = is_hidden(size)
    count, total = difference.wrong_count, int(np.prod(difference.shape, dtype=np.int64))
    where = "at a hidden size (odd dimensions)" if hidden else f"at size {size} ({shapes})"
    share = f"{format_percent(count, total)} of the elements" if hidden else f"{count} of {total} elements ({format_percent(count, total)})"
    lines = [f"output `{difference.name}` is wrong {where}: {share}"]
    if difference.unwritten_count:
        unwritten_portion = format_portion(difference.unwritten_count, total, hidden)
        lines.append(
            f"never written: {unwritten_portion}, still holding the bits from before the call: write every element, set it before adding"
        )
    if difference.nan_count:
        lines.append(f"NaN where the reference has a number: {format_portion(difference.nan_count, total, hidden)}")
    lines.append(format_wrong_elements(difference, hidden))
    if difference.box and not hidden:
        lines.append(
            "all wrong elements lie within indices ["
            + ", ".join(f"{low}:{high + 1}" for low, high in difference.box)
            + f"] of shape {list(difference.shape)}"
        )
    if (not difference.unwritten_count or count < total) and difference.cause:
        lines.append(difference.cause)
    elif difference.is_near_miss:
        lines.append(
            "all wrong elements are nearly correct: use the reference's precision for intermediate values, and check the constants"
        )
    elif size == "small" and kind == "own" and count == total and not difference.unwritten_count:
        lines.append("every element is wrong: check the formula, the order of the arguments and the indexing")
    return "\n".join(lines)


def format_portion(count: int, total: int, hidden: bool) -> str:
    """Return a count of elements, or only a percentage if the count would reveal the size."""
    return f"{format_percent(count, total)} of the elements" if hidden else f"{count} element{'s' if count != 1 else ''}"


def format_percent(count: int, total: int) -> str:
    """Return a percentage that is never shown as zero."""
    return f"{count / total:.1%}" if count >= 0.0005 * total else "less than 0.1%"


def format_wrong_elements(difference: OutputDifference, hidden: bool) -> str:
    """List the element with the largest error, then the first few wrong elements."""

    def describe_element(element: WrongElement) -> str:
        place = "" if hidden or not element.place else f"[{', '.join(map(str, element.place))}] "
        return f"{place}expected {element.expected}, got {element.actual}"

    worst_line = f"worst: {describe_element(difference.worst)}\n" if difference.worst else ""
    return worst_line + "first wrong: " + "; ".join(map(describe_element, difference.first))


def guess_cause(shape: Sequence[int], wrong_counts: Sequence[np.ndarray]) -> str:
    """Return the likely cause of a pattern of wrong elements, or an empty text; `wrong_counts` has, for each dimension, the number of
    wrong elements at each of its indices."""
    total = int(np.prod(shape, dtype=np.int64))
    if not shape or total < 4:
        return ""
    for axis in reversed(range(len(shape))):
        low, high = find_range(wrong_counts[axis])
        if shape[axis] >= 4 and low > shape[axis] // 2 and high == shape[axis] - 1:
            return f"only the end of dimension {axis} is wrong: handle its tail, the last partial block"
    if len(shape) > 1:
        for axis, counts in enumerate(wrong_counts):
            has_wrong, is_all_wrong = counts > 0, counts == total // shape[axis]
            if has_wrong.size >= 4 and has_wrong.sum() <= has_wrong.size // 4 and np.array_equal(has_wrong, is_all_wrong):
                return f"entire slices along dimension {axis} are wrong and the others are correct: check the index of that dimension"
    return ""


def find_range(counts: np.ndarray) -> tuple[int, int]:
    """Return the first and the last index with a count above zero."""
    indices = np.flatnonzero(counts)
    return int(indices[0]), int(indices[-1])
