"""Describes a wrong result for the next prompt: how much is wrong, where, and the likely cause."""

from __future__ import annotations

import numpy as np

from evokernel.verify.compare import Difference, compute_rms

SAMPLE_COUNT = 5


VISIBLE_SIZES = ("small", "laptop", "bench")
NEAR_MISS_SHARE = 0.01
"""An element within this share of (|expected| + rms) is nearly correct."""


def is_hidden(size: str) -> bool:
    """Whether a size must not be revealed to the generator."""
    return size not in VISIBLE_SIZES


def describe_difference(difference: Difference, size: str, shapes: str, kind: str = "own") -> str:
    """Describe how much of an output is wrong, where, and how; leave out indices and shapes that would reveal a hidden size."""
    wrong_mask, hidden = difference.wrong_mask, is_hidden(size)
    count, total = int(wrong_mask.sum()), wrong_mask.size
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
    box = [(int(axis.min()), int(axis.max())) for axis in np.nonzero(wrong_mask)] if wrong_mask.ndim else []
    if box and not hidden:
        lines.append(
            "all wrong elements lie within indices ["
            + ", ".join(f"{low}:{high + 1}" for low, high in box)
            + f"] of shape {list(wrong_mask.shape)}"
        )
    if (not difference.unwritten_count or not wrong_mask.all()) and (hint := guess_cause(wrong_mask, box)):
        lines.append(hint)
    elif is_near_miss(difference):
        lines.append(
            "all wrong elements are nearly correct: use the reference's precision for intermediate values, and check the constants"
        )
    elif size == "small" and kind == "own" and wrong_mask.all() and not difference.unwritten_count:
        lines.append("every element is wrong: check the formula, the order of the arguments and the indexing")
    return "\n".join(lines)


def format_portion(count: int, total: int, hidden: bool) -> str:
    """Return a count of elements, or only a percentage if the count would reveal the size."""
    return f"{format_percent(count, total)} of the elements" if hidden else f"{count} element{'s' if count != 1 else ''}"


def format_percent(count: int, total: int) -> str:
    """Return a percentage that is never shown as zero."""
    return f"{count / total:.1%}" if count >= 0.0005 * total else "less than 0.1%"


def is_near_miss(difference: Difference) -> bool:
    """Whether all wrong elements are nearly correct."""
    if difference.actual.dtype.kind != "f":
        return False
    expected, actual = (values[difference.wrong_mask].astype(np.float64) for values in (difference.expected, difference.actual))
    with np.errstate(all="ignore"):
        return bool((np.abs(actual - expected) <= NEAR_MISS_SHARE * (np.abs(expected) + compute_rms(difference.expected))).all())


def format_wrong_elements(difference: Difference, hidden: bool) -> str:
    """List the element with the largest error, then the first few wrong elements."""
    wrong_indices = np.flatnonzero(difference.wrong_mask)
    expected, actual = difference.expected.reshape(-1), difference.actual.reshape(-1)
    with np.errstate(all="ignore"):
        wide = np.complex128 if actual.dtype.kind == "c" else np.float64
        gap = np.abs(actual[wrong_indices].astype(wide) - expected[wrong_indices].astype(wide))
    finite = np.isfinite(gap)
    worst_index = [int(wrong_indices[np.where(finite, gap, -1.0).argmax()])] if finite.any() else []

    def describe_element(index: int) -> str:
        place = format_index(index, difference.wrong_mask.shape, hidden)
        return f"{place}expected {format_number(expected[index])}, got {format_number(actual[index])}"

    descriptions = [describe_element(int(index)) for index in wrong_indices[:SAMPLE_COUNT]]
    worst_line = f"worst: {describe_element(worst_index[0])}\n" if worst_index else ""
    return worst_line + "first wrong: " + "; ".join(descriptions)


def format_index(flat: int, shape: tuple[int, ...], hidden: bool) -> str:
    """Return an element's index, unless it would reveal a hidden size."""
    if hidden or not shape:
        return ""
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(flat, shape))}] "


def format_number(value: np.generic) -> str:
    """Format a value briefly, with enough digits to show a difference."""
    if value.dtype.kind in "fc":
        return f"{value.item():.7g}"
    return str(int(value))


def guess_cause(wrong_mask: np.ndarray, box: list[tuple[int, int]]) -> str:
    """Return the likely cause for a pattern of wrong elements, or an empty text."""
    if not wrong_mask.ndim or wrong_mask.size < 4:
        return ""
    for axis in reversed(range(wrong_mask.ndim)):
        low, high = box[axis]
        length = wrong_mask.shape[axis]
        if length >= 4 and low > length // 2 and high == length - 1:
            return f"only the end of dimension {axis} is wrong: handle its tail, the last partial block"
    if wrong_mask.ndim > 1:
        for axis in range(wrong_mask.ndim):
            others = tuple(a for a in range(wrong_mask.ndim) if a != axis)
            has_wrong, is_all_wrong = np.any(wrong_mask, axis=others), np.all(wrong_mask, axis=others)
            if has_wrong.size >= 4 and has_wrong.sum() <= has_wrong.size // 4 and np.array_equal(has_wrong, is_all_wrong):
                return f"entire slices along dimension {axis} are wrong and the others are correct: check the index of that dimension"
    return ""
