"""Got against expected, every element, on the judge's side."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from evokernel.core.protocols import Array

FLOATS = ("float64", "float32", "float16", "bfloat16")


class Difference(NamedTuple):
    """Where an output is wrong, and how."""

    name: str
    wrong: np.ndarray
    """True where the output is not what it must be."""
    unwritten: int
    """Wrong elements that still hold the poison."""
    nan: int
    """Wrong elements that are NaN although the reference is not, poison left out."""
    expected: np.ndarray
    got: np.ndarray
    """Both as numbers: half precisions widened to float32."""

    @property
    def reason(self) -> str:
        return "unwritten" if self.unwritten else "nan" if self.nan else "mismatch"


class Expected:
    """An output of the reference with the tolerance it sets: |got - ref| <= atol * rms(ref) + rtol * |ref|; integers exactly."""

    def __init__(self, array: Array, atol: float, rtol: float) -> None:
        self.array, self.atol, self.rtol = array, atol, rtol

    @cached_property
    def values(self) -> np.ndarray:
        return numbers(self.array.data, self.array.dtype)

    @cached_property
    def rms(self) -> float:
        """Root mean square over the finite elements."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(self.values, dtype=np.float64)
        if not np.isfinite(squares.sum()):
            squares = np.square(self.values[np.isfinite(self.values)], dtype=np.float64)
        return float(np.sqrt(squares.mean())) if squares.size else 0.0

    def difference(self, got: np.ndarray, poison: np.ndarray | None = None) -> Difference | None:
        """None when every element is right. `got` has the stored type: bfloat16 as uint16."""
        if got.dtype != self.array.data.dtype or got.shape != self.array.data.shape:
            raise ValueError(
                f"an output of type {got.dtype}{got.shape} cannot be held against {self.array.data.dtype}{self.array.data.shape}"
            )
        if self.array.dtype not in FLOATS:
            stored = got.view(np.uint8) if self.array.dtype == "bool" else got
            wrong = np.asarray(stored != (self.array.data.view(np.uint8) if self.array.dtype == "bool" else self.array.data))
            return self.found(wrong, got, stored, poison) if wrong.any() else None
        values = numbers(got, self.array.dtype)
        wrong = self.apart(values)
        return self.found(wrong, got, values, poison) if wrong.any() else None

    def apart(self, values: np.ndarray) -> np.ndarray:
        """Where floats differ by more than the tolerance; NaN and infinities must be where the reference has them."""
        reference = self.values
        with np.errstate(all="ignore"):
            slack = np.abs(reference)
            slack *= self.rtol
            slack += self.atol * self.rms
            gap = np.subtract(values, reference)
            wrong: np.ndarray = np.asarray(~(np.abs(gap) <= slack))
            wrong |= np.isinf(slack) & ~(values == reference)  # an infinite reference would tolerate anything
        if wrong.any():
            same = (values == reference) | (np.isnan(values) & np.isnan(reference))
            wrong &= ~same
        return wrong

    def found(self, wrong: np.ndarray, got: np.ndarray, values: np.ndarray, poison: np.ndarray | None) -> Difference:
        """A difference with its unwritten and NaN elements counted."""
        untouched = np.zeros(wrong.shape, bool) if poison is None else wrong & (got.view(poison.dtype) == poison)
        strange = wrong & ~untouched & np.isnan(values) if values.dtype.kind == "f" else np.zeros(wrong.shape, bool)
        return Difference(self.array.name, wrong, int(untouched.sum()), int(strange.sum()), self.values, values)


def numbers(stored: np.ndarray, dtype: str) -> np.ndarray:
    """Stored bits as numbers one can compute with: half precisions as float32."""
    if dtype == "bfloat16":
        return (np.asarray(stored).astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32) if dtype == "float16" else stored
