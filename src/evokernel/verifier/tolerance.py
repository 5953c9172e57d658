"""Computes tolerances: how closely an output must match, from the reference's own error in its precision against float64.

A kernel may err `kappa` times as much as the reference in the same types, in units of (|truth| + root mean square). Sums in another order
stay far below that limit; fewer bits in intermediate values exceed it (docs/adr/0017-errors-are-measured-against-the-references-own.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evokernel.core.backend import Array
from evokernel.core.errors import UserError
from evokernel.core.numeric_contract import (
    FLUSHED_DTYPES,
    KAPPA_HALF,
    MAX_REFERENCE_ERROR,
    MAX_REFERENCE_ERROR_HALF,
    PAPER_RULE,
    ROUNDING_STEPS,
    SMALLEST_NORMAL,
    VANISHING_SHARE,
    ToleranceRule,
    compute_error_share,
    has_half_tensors,
    make_tolerance_rule,
)
from evokernel.core.records import Task
from evokernel.verifier.compare import INEXACT, ExpectedOutput, ValueRange, compute_rms, decode_values

if TYPE_CHECKING:
    from evokernel.reference.float64_reference import Float64Result
    from evokernel.reference.module import NamedTensor, Reference, Sample

LARGE_SHARE, MIN_LARGE = 1 / 16, 8
"""Values above this share of the root mean square are large; from this many of them their usual error is known."""
MAX_OTHER_FACTOR = 10
"""On inputs of other kinds than the task's own, the error of large values may widen the tolerance to this multiple of the task's."""
NO_FLOAT64_REFERENCE = "float64 reference: not available, so the task's own tolerance applies"


class UnsuitableInputs(Exception):
    """The operator is not defined for this kind of inputs."""


class Tolerance:
    """Computes the tolerances of one task under one protocol."""

    def __init__(self, task: Task, protocol: str) -> None:
        self.task, self.protocol = task, protocol
        self.is_half = has_half_tensors(task.signature)
        self.error_shares: dict[str, list[float | None]] = {}
        """Measured on the task's own inputs at a size, for each output; valid for other inputs of that kind."""
        self.usual_magnitudes: dict[str, list[float]] = {}
        """The magnitudes of the outputs at a size on the task's own inputs."""
        self.skipped_check: str = ""

    def compute_expected(self, reference: Reference, size: str, kind: str, sample: Sample) -> tuple[ExpectedOutput, ...]:
        """Return the outputs of a sample with their tolerances. Raise UnsuitableInputs if they cannot verify a kernel."""
        try:
            named = reference.run(sample)
        except UserError:
            if kind == "own":
                raise
            raise UnsuitableInputs(kind) from None
        arrays = to_arrays(named)
        if self.protocol == "paper":
            return tuple(ExpectedOutput(array, PAPER_RULE) for array in arrays)
        if kind not in ("own", "nonfinite") and not is_all_finite(arrays) and np.isfinite(self.get_usual_magnitudes(reference, size)).all():
            raise UnsuitableInputs(kind)
        if kind == "shifted" and is_vanishing(arrays, self.get_usual_magnitudes(reference, size)):
            raise UnsuitableInputs(kind)
        if kind != "own" and is_subnormal(arrays):
            raise UnsuitableInputs(kind)
        exact = self.run_float64_reference(reference, kind, sample, named)
        rules = self.make_rules(reference, kind, sample, named, exact)
        if kind == "own":
            self.error_shares.setdefault(size, [rule.error_share for rule in rules])
        truths = [None] * len(arrays) if exact is None else select_truths(exact, arrays)
        return tuple(
            ExpectedOutput(array, rule, truth, JumpRanges(reference, sample, named), index)
            for index, (array, rule, truth) in enumerate(zip(arrays, rules, truths, strict=True))
        )

    def recompute_expected(self, reference: Reference, size: str, sample: Sample) -> tuple[ExpectedOutput, ...]:
        """Return the expected outputs of a sample of the task's own kind from the cached tolerances: fast enough for every timed window."""
        named = reference.run(sample)
        arrays = to_arrays(named)
        if self.protocol == "paper":
            return tuple(ExpectedOutput(array, PAPER_RULE) for array in arrays)
        shares = self.error_shares.get(size) or [None] * len(arrays)
        return tuple(
            ExpectedOutput(
                array,
                self.make_rule("own", None if share is None else share * (1 + 1 / KAPPA_HALF)),
                None,
                JumpRanges(reference, sample, named),
                index,
            )
            for index, (array, share) in enumerate(zip(arrays, shares, strict=True))
        )

    def get_usual_magnitudes(self, reference: Reference, size: str) -> list[float]:
        """Return the magnitudes of the outputs on the task's own inputs; infinite if an output is not finite."""
        if size not in self.usual_magnitudes:
            arrays = to_arrays(reference.run(reference.sample(1)))
            self.usual_magnitudes[size] = [compute_magnitude(array) if is_all_finite([array]) else float("inf") for array in arrays]
        return self.usual_magnitudes[size]

    def run_float64_reference(
        self, reference: Reference, kind: str, sample: Sample, named: tuple[NamedTensor, ...]
    ) -> Float64Result | None:
        """Run the reference in float64; return None if it is not the same operator there."""
        from evokernel.reference.float64_reference import run_in_float64

        arrays = to_arrays(named)
        if "random" in self.task.tags or not any(array.dtype in INEXACT and array.dtype != "float64" for array in arrays):
            return None
        exact = run_in_float64(reference, sample, named)
        if exact and all(has_same_nonfinite(array, truth) for array, truth in zip(arrays, select_truths(exact, arrays), strict=True)):
            return exact
        if exact and kind != "own":
            raise UnsuitableInputs(kind)
        self.skipped_check = NO_FLOAT64_REFERENCE
        return None

    def make_rules(
        self, reference: Reference, kind: str, sample: Sample, named: tuple[NamedTensor, ...], exact: Float64Result | None
    ) -> list[ToleranceRule]:
        """Return one tolerance rule for each output."""
        from evokernel.reference.float64_reference import run_with_perturbed_inputs

        arrays = to_arrays(named)
        reduction_length, rounds_to_half = (exact.reduction_length, exact.rounds_to_half) if exact else (1.0, False)
        max_error = MAX_REFERENCE_ERROR_HALF if self.is_half or rounds_to_half else MAX_REFERENCE_ERROR
        moved_outputs = run_with_perturbed_inputs(reference, sample, named, sample.seed) if kind not in ("own", "nonfinite") else None
        moved_arrays: Sequence[Array | None] = to_arrays(moved_outputs) if moved_outputs else [None] * len(arrays)
        truths = select_truths(exact, arrays) if exact else [None] * len(arrays)
        rules = []
        for array, truth, moved_array in zip(arrays, truths, moved_arrays, strict=True):
            if array.dtype not in INEXACT:
                rules.append(ToleranceRule(0.0, 0.0))
                continue
            error = measure_reference_error(array, truth, moved_array)
            if kind != "own" and error > max_error:
                raise UnsuitableInputs(kind)
            error_share = compute_error_share(error, array.dtype, reduction_length, rounds_to_half)
            rules.append(self.make_rule(kind, error_share if truth is not None or kind != "own" else None))
        return rules

    def make_region_rule(self, array: Array, truth: np.ndarray | None, kind: str) -> ToleranceRule:
        """Return the tolerance for some elements of an output at a size at which the reference never runs whole."""
        if self.protocol == "paper":
            return PAPER_RULE
        if array.dtype not in INEXACT:
            return ToleranceRule(0.0, 0.0)
        error = measure_reference_error(array, truth, None)
        if kind != "own" and is_subnormal([array]):
            raise UnsuitableInputs(kind)
        if not is_all_finite([array]) or error > (MAX_REFERENCE_ERROR_HALF if self.is_half else MAX_REFERENCE_ERROR):
            raise UnsuitableInputs(kind)
        share, share_of_large = (
            compute_error_share(one, array.dtype, self.task.work.reduction_length, self.is_half)
            for one in (error, measure_error_of_large(array, truth))
        )
        most = max(self.task.atol, self.task.rtol) * (1 if kind == "own" else MAX_OTHER_FACTOR)
        return self.make_rule(kind, max(share, min(share_of_large, most)))

    def make_rule(self, kind: str, error_share: float | None) -> ToleranceRule:
        """Combine the task's tolerance and the allowed error."""
        return make_tolerance_rule(self.task.signature, self.task.atol, self.task.rtol, kind, error_share)


class JumpRanges:
    """Yields the ranges of an output while its inputs move by one or a few roundings, wider with every step."""

    def __init__(self, reference: Reference, sample: Sample, outputs: tuple[NamedTensor, ...]) -> None:
        self.reference, self.sample, self.outputs = reference, sample, outputs

    def __call__(self, index: int) -> Iterator[ValueRange]:
        from evokernel.reference.float64_reference import run_in_float64, run_with_perturbed_inputs

        array = to_arrays(self.outputs)[index]
        value_range = ValueRange(*[decode_values(array.data, array.dtype).astype(np.float64)] * 2)
        if exact := run_in_float64(self.reference, self.sample, self.outputs):
            value_range = value_range.extend(exact.outputs[index].tensor.double().numpy())
            yield value_range
        for seed, steps in enumerate(ROUNDING_STEPS):
            if moved_outputs := run_with_perturbed_inputs(self.reference, self.sample, self.outputs, seed, steps):
                array = to_arrays(moved_outputs)[index]
                value_range = value_range.extend(decode_values(array.data, array.dtype).astype(np.float64))
                yield value_range


def to_arrays(named: tuple[NamedTensor, ...]) -> list[Array]:
    """Convert outputs to arrays."""
    from evokernel.reference.arrays import to_array

    return [to_array(name, tensor) for name, tensor in named]


def select_truths(exact: Float64Result, arrays: Sequence[Array]) -> list[np.ndarray | None]:
    """Return the float64 truth of each output that is a narrower float, and None for the others."""
    is_narrow = [array.dtype in INEXACT and array.dtype != "float64" for array in arrays]
    return [output.tensor.numpy() if is_needed else None for output, is_needed in zip(exact.outputs, is_narrow, strict=True)]


def is_all_finite(arrays: Sequence[Array]) -> bool:
    """Whether all floating-point outputs are finite."""
    return all(bool(np.isfinite(decode_values(array.data, array.dtype)).all()) for array in arrays if array.dtype in INEXACT)


def compute_magnitude(array: Array) -> float:
    """Return the root mean square of an output."""
    return compute_rms(decode_values(array.data, array.dtype))


def is_vanishing(arrays: Sequence[Array], usual_magnitudes: Sequence[float]) -> bool:
    """Whether a float output is negligible compared with its usual magnitude."""
    return any(
        compute_magnitude(array) < VANISHING_SHARE * size
        for array, size in zip(arrays, usual_magnitudes, strict=True)
        if array.dtype in INEXACT
    )


def is_subnormal(arrays: Sequence[Array]) -> bool:
    """Whether the values of an output are so small that chips without subnormal numbers replace them by zero."""
    return any(array.dtype in FLUSHED_DTYPES and 0 < compute_magnitude(array) < SMALLEST_NORMAL for array in arrays)


def has_same_nonfinite(array: Array, truth: np.ndarray | None) -> bool:
    """Whether infinities and NaN are at the same places in both."""
    if truth is None:
        return True
    values = decode_values(array.data, array.dtype)
    is_nonfinite = ~np.isfinite(values)
    return bool((is_nonfinite == ~np.isfinite(truth)).all() and np.array_equal(values[is_nonfinite], truth[is_nonfinite], equal_nan=True))


def measure_reference_error(array: Array, truth: np.ndarray | None, moved: Array | None) -> float:
    """Return the reference's error in its own type, in units of (|truth| + rms), without the few elements where the operator may jump."""
    values = decode_values(array.data, array.dtype)
    values = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    target = values if truth is None else truth
    size = np.abs(target) + compute_rms(target)
    errors = []
    with np.errstate(all="ignore"):
        if truth is not None:
            errors_by_element = np.nan_to_num(np.abs(values - truth) / size, nan=0.0)
            errors.append(
                min(
                    float(errors_by_element.max(initial=0.0)),
                    4 * float(np.quantile(errors_by_element, 0.99)) if errors_by_element.size else 0.0,
                )
            )
        if moved is not None:
            errors_by_element = np.nan_to_num(np.abs(decode_values(moved.data, moved.dtype) - values) / size, nan=0.0)
            errors.append(float(np.quantile(errors_by_element, 0.9)) if errors_by_element.size else 0.0)
    return max(errors, default=0.0)


def measure_error_of_large(array: Array, truth: np.ndarray | None) -> float:
    """Return four times what nine in ten large values err at most, in the same units, but at most the largest such error.

    Most results of a softmax may be nearly zero, with errors as small. Then the errors of most elements say nothing about the few others.
    In whole outputs those few count as jumps, found by running the reference again, which is not possible for regions.
    """
    values = decode_values(array.data, array.dtype)
    if truth is None or values.dtype.kind == "c" or not truth.size:
        return 0.0
    rms = compute_rms(truth)
    is_large = np.abs(truth) >= LARGE_SHARE * rms
    with np.errstate(all="ignore"):
        errors = np.nan_to_num(np.abs(values[is_large] - truth[is_large]) / (np.abs(truth[is_large]) + rms), nan=0.0)
    largest = float(errors.max(initial=0.0))
    return largest if errors.size < MIN_LARGE else min(largest, 4 * float(np.quantile(errors, 0.9)))
