"""A wrong result in words the next generation can act on."""

from __future__ import annotations

import numpy as np

from evokernel.verify.compare import Difference, rms

SAMPLES = 5


SHOWN = ("small", "bench")
CLOSE = 0.01
"""Wrong by no more than this part of (|expected| + rms) is nearly right."""


def is_hidden(size: str) -> bool:
    """Whether a size is one that nobody is to know."""
    return size not in SHOWN


def describe(difference: Difference, size: str, shapes: str, kind: str = "own") -> str:
    """How much is wrong, where, and how; at hidden sizes without the indices and shapes that would give it away."""
    wrong, hidden = difference.wrong, is_hidden(size)
    count, total = int(wrong.sum()), wrong.size
    where = "at a size that is not shown (odd dimensions)" if hidden else f"at size {size} ({shapes})"
    share = percent(count, total) if hidden else f"{count} of {total} elements ({percent(count, total)})"
    lines = [f"output `{difference.name}` {where}: {share} wrong"]
    if difference.unwritten:
        left = portion(difference.unwritten, total, hidden)
        lines.append(f"{left} still hold what was there before the call: never written, or added to without being set")
    if difference.nan:
        lines.append(f"{portion(difference.nan, total, hidden)} are NaN where the reference has a number")
    lines.append(worst(difference, hidden))
    box = [(int(axis.min()), int(axis.max())) for axis in np.nonzero(wrong)] if wrong.ndim else []
    if box and not hidden:
        lines.append("wrong elements lie within [" + ", ".join(f"{low}:{high + 1}" for low, high in box) + f"] of {list(wrong.shape)}")
    if (not difference.unwritten or not wrong.all()) and (hint := guess(wrong, box)):
        lines.append(hint)
    elif is_close(difference):
        lines.append("all of it is nearly right: fewer digits than the reference inside, or another constant")
    elif size == "small" and kind == "own" and wrong.all() and not difference.unwritten:
        lines.append("everything is wrong: the formula, the argument order or the indexing")
    return "\n".join(lines)


def portion(count: int, total: int, hidden: bool) -> str:
    """A count, or only a share where a count would tell the size."""
    return percent(count, total) if hidden else f"{count}"


def percent(count: int, total: int) -> str:
    """A share that is never said to be none."""
    return f"{count / total:.1%}" if count >= 0.0005 * total else "less than 0.1%"


def is_close(difference: Difference) -> bool:
    """Whether all that is wrong is nearly right."""
    if difference.got.dtype.kind != "f":
        return False
    expected, got = (values[difference.wrong].astype(np.float64) for values in (difference.expected, difference.got))
    with np.errstate(all="ignore"):
        return bool((np.abs(got - expected) <= CLOSE * (np.abs(expected) + rms(difference.expected))).all())


def worst(difference: Difference, hidden: bool) -> str:
    """The element furthest off, then the first few wrong ones."""
    places = np.flatnonzero(difference.wrong)
    expected, got = difference.expected.reshape(-1), difference.got.reshape(-1)
    with np.errstate(all="ignore"):
        gap = np.abs(got[places].astype(np.float64) - expected[places].astype(np.float64))
    finite = np.isfinite(gap)
    order = [int(places[np.where(finite, gap, -1.0).argmax()])] if finite.any() else []
    firsts = [int(place) for place in places[:SAMPLES]]
    shown = [f"{label(i, difference.wrong.shape, hidden)}expected {number(expected[i])}, got {number(got[i])}" for i in firsts]
    head = (
        f"worst: {label(order[0], difference.wrong.shape, hidden)}expected {number(expected[order[0]])}, got {number(got[order[0]])}\n"
        if order
        else ""
    )
    return head + "first wrong: " + "; ".join(shown)


def label(flat: int, shape: tuple[int, ...], hidden: bool) -> str:
    """An element's index, unless that is not to be known."""
    if hidden or not shape:
        return ""
    return f"[{', '.join(str(int(i)) for i in np.unravel_index(flat, shape))}] "


def number(value: np.generic) -> str:
    """Short, but enough digits to see a difference."""
    return f"{float(value):.7g}" if value.dtype.kind == "f" else str(int(value))


def guess(wrong: np.ndarray, box: list[tuple[int, int]]) -> str:
    """What the pattern of wrong elements suggests, if anything."""
    if not wrong.ndim or wrong.size < 4:
        return ""
    for axis in reversed(range(wrong.ndim)):
        low, high = box[axis]
        length = wrong.shape[axis]
        if length >= 4 and low > length // 2 and high == length - 1:
            return f"only the end of dimension {axis} is wrong: is the ragged tail handled?"
    if wrong.ndim > 1:
        for axis in range(wrong.ndim):
            others = tuple(a for a in range(wrong.ndim) if a != axis)
            lines, full = np.any(wrong, axis=others), np.all(wrong, axis=others)
            if lines.size >= 4 and lines.sum() <= lines.size // 4 and np.array_equal(lines, full):
                return f"whole slices along dimension {axis} are wrong, the others right: is that index computed right?"
    return ""
