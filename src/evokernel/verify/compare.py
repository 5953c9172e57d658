"""Got against expected, every element, on the judge's side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from evokernel.core.protocols import Array

FLOATS = ("float64", "float32", "float16", "bfloat16")
EDGE_SHARE, FEW, STEEP = 0.05, 4, 2
"""More wrong elements than this share and number no jump explains; where an output jumps, it may be so many of its jumps off."""


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


class Edges(NamedTuple):
    """Between which values an output lies when inputs move by their rounding error."""

    low: np.ndarray
    high: np.ndarray

    def widened(self, values: np.ndarray) -> Edges:
        """With further values between them."""
        return Edges(np.minimum(self.low, values), np.maximum(self.high, values))


class Rule(NamedTuple):
    """How far an output may be from the truth: `share` of (|truth| + rms), the task's own tolerance, or both, as `bound` says."""

    atol: float
    rtol: float
    share: float | None = None
    """None where only the task's tolerance counts."""
    bound: Literal["least", "most"] = "least"
    """Whether the smaller of the two counts or the larger."""
    unit: float | None = None
    """What the absolute tolerance is a part of; the root mean square of the truth when None."""


class Expected:
    """An output of the reference and how closely it must be matched, element by element; integers exactly.

    `truth` is the output in float64 where that is known; then a kernel may also be as far off as the reference itself is. `edges` is asked
    only when few elements are wrong: there an operator may jump, and where it jumps is a matter of rounding.
    """

    def __init__(
        self,
        array: Array,
        rule: Rule,
        truth: np.ndarray | None = None,
        edges: Callable[[int], Iterable[Edges]] | None = None,
        index: int = 0,
    ) -> None:
        self.array, self.rule, self.truth = array, rule, truth
        self.edges, self.index = edges, index

    @cached_property
    def values(self) -> np.ndarray:
        return numbers(self.array.data, self.array.dtype)

    @cached_property
    def centre(self) -> np.ndarray:
        """What a kernel's result is held against."""
        return self.values if self.truth is None else self.truth

    @cached_property
    def rms(self) -> float:
        return rms(self.centre)

    @cached_property
    def slack(self) -> np.ndarray:
        """How far each element may be off."""
        rule, size = self.rule, np.abs(self.centre)
        with np.errstate(all="ignore"):
            own = size * rule.rtol
            own += rule.atol * (self.rms if rule.unit is None else rule.unit)
            if self.truth is not None:
                own += np.abs(self.values - self.truth)
            if rule.share is None:
                return np.asarray(own)
            size += self.rms
            size *= rule.share
            return np.asarray(np.minimum(size, own) if rule.bound == "least" else np.maximum(size, own))

    def holds_at(self, got: np.ndarray, chosen: np.ndarray) -> bool:
        """Whether a few elements are right, without a copy of all of them; False also where that depends on the others."""
        rule = self.rule
        if self.array.dtype not in FLOATS or rule.unit is None or rule.share is not None:
            return False
        few = Array(self.array.name, self.array.dtype, self.array.data.reshape(-1)[chosen])
        truth = None if self.truth is None else self.truth.reshape(-1)[chosen]
        return Expected(few, rule, truth).difference(got.reshape(-1)[chosen]) is None

    def difference(self, got: np.ndarray, poison: np.ndarray | None = None) -> Difference | None:
        """None when every element is right. `got` has the stored type: bfloat16 as uint16."""
        if got.dtype != self.array.data.dtype or got.shape != self.array.data.shape:
            raise ValueError(
                f"an output of type {got.dtype}{got.shape} cannot be held against {self.array.data.dtype}{self.array.data.shape}"
            )
        if self.array.dtype not in FLOATS:
            is_bool = self.array.dtype == "bool"
            stored = got.view(np.uint8) if is_bool else got
            wrong = np.asarray(stored != (self.array.data.view(np.uint8) if is_bool else self.array.data))
            wrong = self.off_the_edge(wrong, stored, 0)
            return self.found(wrong, got, stored, poison) if wrong.any() else None
        values = numbers(got, self.array.dtype)
        wrong = self.apart(values)
        return self.found(wrong, got, values, poison) if wrong.any() else None

    def is_near(self, got: np.ndarray, before: np.ndarray | None) -> bool:
        """Whether floats are as close to ones that were right as those had to be to the truth: one program, built in two ways."""
        if before is None or self.array.dtype not in FLOATS:
            return False
        one, other = numbers(got, self.array.dtype), numbers(before, self.array.dtype)
        with np.errstate(all="ignore"):
            return bool(((one == other) | (np.abs(np.subtract(one, other)) <= self.slack)).all())

    def apart(self, values: np.ndarray) -> np.ndarray:
        """Where floats differ by more than the tolerance; NaN and infinities must be where the reference has them."""
        reference = self.centre
        with np.errstate(all="ignore"):
            gap = np.subtract(values, reference)
            wrong: np.ndarray = np.asarray(~(np.abs(gap) <= self.slack))
            if not np.isfinite(self.slack.max(initial=0.0)):  # an infinite reference would tolerate anything
                wrong |= np.isinf(self.slack) & ~(values == reference)
        if wrong.any():
            same = (values == reference) | (np.isnan(values) & np.isnan(reference))
            wrong &= ~same
        return self.off_the_edge(wrong, values, self.slack)

    def off_the_edge(self, wrong: np.ndarray, values: np.ndarray, slack: np.ndarray | int) -> np.ndarray:
        """Less the elements that may as well be what they are, because rounding decides."""
        count = int(wrong.sum())
        if not count or self.edges is None or count > max(FEW, EDGE_SHARE * wrong.size):
            return wrong
        for low, high in self.edges(self.index):
            with np.errstate(all="ignore"):
                if values.dtype.kind != "f":
                    wrong = np.asarray(wrong & ~((low <= values) & (values <= high)))
                else:
                    jumps, room = high - low > slack, slack + STEEP * (high - low)
                    wrong = np.asarray(wrong & ~(jumps & (low - room <= values) & (values <= high + room)))
            if not wrong.any():
                break
        return wrong

    def found(self, wrong: np.ndarray, got: np.ndarray, values: np.ndarray, poison: np.ndarray | None) -> Difference:
        """A difference with its unwritten and NaN elements counted."""
        untouched = np.zeros(wrong.shape, bool) if poison is None else wrong & (got.view(poison.dtype) == poison)
        strange = wrong & ~untouched & np.isnan(values) if values.dtype.kind == "f" else np.zeros(wrong.shape, bool)
        return Difference(self.array.name, wrong, int(untouched.sum()), int(strange.sum()), self.centre, values)


def numbers(stored: np.ndarray, dtype: str) -> np.ndarray:
    """Stored bits as numbers one can compute with: half precisions as float32."""
    if dtype == "bfloat16":
        return (np.asarray(stored).astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32) if dtype == "float16" else stored


def rms(values: np.ndarray) -> float:
    """Root mean square over the finite elements."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.square(values, dtype=np.float64)
    if not np.isfinite(squares.sum()):
        squares = np.square(values[np.isfinite(values)], dtype=np.float64)
    return float(np.sqrt(squares.mean())) if squares.size else 0.0
