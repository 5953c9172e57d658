"""Describes a wrong result for the next prompt: how much is wrong, where, and the likely cause."""

from __future__ import annotations

import numpy as np

from evokernel.core.output_difference import (
    NEAR_MISS_SHARE,
    SHOWN_ELEMENTS,
    OutputDifference,
    WrongElement,
    describe_output_difference,
    find_range,
    guess_cause,
)
from evokernel.verifier.compare import Difference, compute_rms


def describe_difference(difference: Difference, size: str, shapes: str, kind: str = "own") -> str:
    """Describe how much of an output is wrong, where, and how; leave out indices and shapes that would reveal a hidden size."""
    return describe_output_difference(summarize_difference(difference), size, shapes, kind)


def summarize_difference(difference: Difference) -> OutputDifference:
    """Return the numbers that a message about a wrong output needs."""
    mask = difference.wrong_mask
    axes = range(mask.ndim)
    wrong_counts = [mask.sum(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    wrong_indices = np.flatnonzero(mask)
    expected, actual = difference.expected.reshape(-1), difference.actual.reshape(-1)
    with np.errstate(all="ignore"):
        wide = np.complex128 if actual.dtype.kind == "c" else np.float64
        gap = np.abs(actual[wrong_indices].astype(wide) - expected[wrong_indices].astype(wide))
    finite = np.isfinite(gap)

    def describe_element(index: int) -> WrongElement:
        place = tuple(int(i) for i in np.unravel_index(index, mask.shape)) if mask.ndim else ()
        return WrongElement(place, format_number(expected[index]), format_number(actual[index]))

    return OutputDifference(
        difference.name,
        tuple(mask.shape),
        len(wrong_indices),
        difference.unwritten_count,
        difference.nan_count,
        tuple(map(find_range, wrong_counts)),
        describe_element(int(wrong_indices[np.where(finite, gap, -1.0).argmax()])) if finite.any() else None,
        tuple(describe_element(int(index)) for index in wrong_indices[:SHOWN_ELEMENTS]),
        is_near_miss(difference),
        guess_cause(mask.shape, wrong_counts),
    )


def is_near_miss(difference: Difference) -> bool:
    """Whether all wrong elements are nearly correct."""
    if difference.actual.dtype.kind != "f":
        return False
    expected, actual = (values[difference.wrong_mask].astype(np.float64) for values in (difference.expected, difference.actual))
    with np.errstate(all="ignore"):
        return bool((np.abs(actual - expected) <= NEAR_MISS_SHARE * (np.abs(expected) + compute_rms(difference.expected))).all())


def format_number(value: np.generic) -> str:
    """Format a value briefly, with enough digits to show a difference."""
    if value.dtype.kind in "fc":
        return f"{value.item():.7g}"
    return str(int(value))
