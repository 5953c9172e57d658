"""Compares every element of an output with its expected value, in the verifier's process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evokernel.core.backend import Array
from evokernel.core.numeric_contract import (
    FLUSHED_DTYPES,
    MAX_JUMP_OVERSHOOT,
    MAX_JUMP_SHARE,
    MIN_JUMP_COUNT,
    SMALLEST_NORMAL,
    ToleranceRule,
)

FLOATS = ("float64", "float32", "float16", "bfloat16")
INEXACT = (*FLOATS, "complex64")
"""Types whose results may differ from the reference by rounding."""


class Difference(NamedTuple):
    """Where and how an output differs from the reference."""

    name: str
    wrong_mask: np.ndarray
    """True where the output is wrong."""
    unwritten_count: int
    """Wrong elements that still hold the poison."""
    nan_count: int
    """Wrong elements that are NaN where the reference has a number, poison excluded."""
    expected: np.ndarray
    actual: np.ndarray
    """Expected and actual values as numbers: half precisions are widened to float32."""

    @property
    def reason(self) -> str:
        """The reason word of the failure."""
        return "unwritten" if self.unwritten_count else "nan" if self.nan_count else "mismatch"


class ValueRange(NamedTuple):
    """The range of an output while its inputs move by their rounding error."""

    low: np.ndarray
    high: np.ndarray

    def extend(self, values: np.ndarray) -> ValueRange:
        """Return the range extended to further values."""
        return ValueRange(np.minimum(self.low, values), np.maximum(self.high, values))


class ExpectedOutput:
    """An output of the reference with its tolerance for every element; integers must match exactly.

    `truth` is the output in float64 if it is known; a kernel may then also be as far off as the reference itself. `find_ranges` is called
    only if few elements are wrong: an operator may jump there, and rounding decides where it jumps.
    """

    def __init__(
        self,
        array: Array,
        rule: ToleranceRule,
        truth: np.ndarray | None = None,
        find_ranges: Callable[[int], Iterable[ValueRange]] | None = None,
        index: int = 0,
    ) -> None:
        self.array, self.rule, self.truth = array, rule, truth
        self.find_ranges, self.index = find_ranges, index

    @cached_property
    def values(self) -> np.ndarray:
        """The output of the reference as numbers."""
        return decode_values(self.array.data, self.array.dtype)

    @cached_property
    def target(self) -> np.ndarray:
        """The values that a kernel's results are compared with."""
        return self.values if self.truth is None else self.truth

    @cached_property
    def rms(self) -> float:
        """The root mean square of the target."""
        return compute_rms(self.target)

    @cached_property
    def allowed_error(self) -> np.ndarray:
        """The allowed absolute error of each element."""
        rule, size = self.rule, np.abs(self.target)
        with np.errstate(all="ignore"):
            task_tolerance = size * rule.rtol
            task_tolerance += rule.atol * (self.rms if rule.atol_unit is None else rule.atol_unit)
            if self.truth is not None:
                task_tolerance += np.abs(self.values - self.truth)
            if rule.error_share is None:
                return np.asarray(task_tolerance)
            size += self.rms
            size *= rule.error_share
            allowed = np.minimum(size, task_tolerance) if rule.combine == "min" else np.maximum(size, task_tolerance)
            return np.asarray(np.maximum(allowed, SMALLEST_NORMAL) if self.array.dtype in FLUSHED_DTYPES else allowed)

    def is_correct_at(self, actual: np.ndarray, indices: np.ndarray) -> bool:
        """Whether a few elements are correct, without copying all; also False if that depends on the other elements."""
        rule = self.rule
        if self.array.dtype not in INEXACT or rule.atol_unit is None or rule.error_share is not None:
            return False
        few = Array(self.array.name, self.array.dtype, self.array.data.reshape(-1)[indices])
        truth = None if self.truth is None else self.truth.reshape(-1)[indices]
        return ExpectedOutput(few, rule, truth).find_difference(actual.reshape(-1)[indices]) is None

    def find_difference(self, actual: np.ndarray, poison: np.ndarray | None = None) -> Difference | None:
        """Return the difference from the expected output, or None if every element is correct. `actual` has the storage type: bfloat16 as
        uint16."""
        if actual.dtype != self.array.data.dtype or actual.shape != self.array.data.shape:
            raise ValueError(
                f"an output of type {actual.dtype}{actual.shape} cannot be compared with {self.array.data.dtype}{self.array.data.shape}"
            )
        if self.array.dtype not in INEXACT:
            is_bool = self.array.dtype == "bool"
            stored_values = actual.view(np.uint8) if is_bool else actual
            wrong_mask = np.asarray(stored_values != (self.array.data.view(np.uint8) if is_bool else self.array.data))
            wrong_mask = self.exclude_jumps(wrong_mask, stored_values, 0)
            return self.make_difference(wrong_mask, actual, stored_values, poison) if wrong_mask.any() else None
        values = decode_values(actual, self.array.dtype)
        wrong_mask = self.find_wrong_elements(values)
        return self.make_difference(wrong_mask, actual, values, poison) if wrong_mask.any() else None

    def is_close_to_earlier(self, actual: np.ndarray, earlier: np.ndarray | None) -> bool:
        """Whether floats are as close to earlier correct results as those had to be to the truth: one program, built in two ways."""
        if earlier is None or self.array.dtype not in INEXACT:
            return False
        actual_values, earlier_values = decode_values(actual, self.array.dtype), decode_values(earlier, self.array.dtype)
        with np.errstate(all="ignore"):
            return bool(
                ((actual_values == earlier_values) | (np.abs(np.subtract(actual_values, earlier_values)) <= self.allowed_error)).all()
            )

    def find_wrong_elements(self, values: np.ndarray) -> np.ndarray:
        """Return a mask of floats that differ by more than the tolerance; NaN and infinities must be where the reference has them."""
        reference = self.target
        with np.errstate(all="ignore"):
            gap = np.subtract(values, reference)
            wrong_mask: np.ndarray = np.asarray(~(np.abs(gap) <= self.allowed_error))
            if not np.isfinite(self.allowed_error.max(initial=0.0)):  # an infinite tolerance would accept any value
                wrong_mask |= np.isinf(self.allowed_error) & ~(values == reference)
        if wrong_mask.any():
            is_equal = (values == reference) | (np.isnan(values) & np.isnan(reference))
            wrong_mask &= ~is_equal
        return self.exclude_jumps(wrong_mask, values, self.allowed_error)

    def exclude_jumps(self, wrong_mask: np.ndarray, values: np.ndarray, allowed_error: np.ndarray | int) -> np.ndarray:
        """Clear wrong elements that are explained by a jump of the operator within the rounding error of its inputs."""
        count = int(wrong_mask.sum())
        if (
            not count
            or self.find_ranges is None
            or values.dtype.kind == "c"
            or count > max(MIN_JUMP_COUNT, MAX_JUMP_SHARE * wrong_mask.size)
        ):
            return wrong_mask
        for low, high in self.find_ranges(self.index):
            with np.errstate(all="ignore"):
                if values.dtype.kind != "f":
                    wrong_mask = np.asarray(wrong_mask & ~((low <= values) & (values <= high)))
                else:
                    jumps, margin = high - low > allowed_error, allowed_error + MAX_JUMP_OVERSHOOT * (high - low)
                    wrong_mask = np.asarray(wrong_mask & ~(jumps & (low - margin <= values) & (values <= high + margin)))
            if not wrong_mask.any():
                break
        return wrong_mask

    def make_difference(self, wrong_mask: np.ndarray, actual: np.ndarray, values: np.ndarray, poison: np.ndarray | None) -> Difference:
        """Return a difference with its unwritten and NaN elements counted."""
        unwritten_mask = np.zeros(wrong_mask.shape, bool) if poison is None else wrong_mask & (actual.view(poison.dtype) == poison)
        nan_mask = wrong_mask & ~unwritten_mask & np.isnan(values) if values.dtype.kind in "fc" else np.zeros(wrong_mask.shape, bool)
        return Difference(self.array.name, wrong_mask, int(unwritten_mask.sum()), int(nan_mask.sum()), self.target, values)


def decode_values(stored: np.ndarray, dtype: str) -> np.ndarray:
    """Convert stored bits to numbers for arithmetic: half precisions become float32."""
    if dtype == "bfloat16":
        return (np.asarray(stored).astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32) if dtype == "float16" else stored


def compute_rms(values: np.ndarray) -> float:
    """Return the root mean square of the finite elements, or of their magnitudes if they are complex."""
    if values.dtype.kind == "c":
        values = np.abs(values)
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.square(values, dtype=np.float64)
    if not np.isfinite(squares.sum()):
        squares = np.square(values[np.isfinite(values)], dtype=np.float64)
    return float(np.sqrt(squares.mean())) if squares.size else 0.0
