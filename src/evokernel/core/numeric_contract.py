"""Numeric requirements of a task: dtypes, tolerances, determinism."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from evokernel.core.records import Signature, Task

KAPPA, KAPPA_HALF, BASE_REDUCTION_LENGTH = 64.0, 4.0, 512
"""The allowed multiple of the reference's error, for reductions up to this length; beyond it grows with the square root of the length."""
MIN_ERROR_EPSILONS, MIN_ERROR_EPSILONS_HALF = 0.25, 0.5
"""The reference's error counts as at least this many epsilons of the output type, because it may be small by chance."""
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "complex64": 2.0**-23}
HALVES = ("float16", "bfloat16")


class NumericContract(NamedTuple):
    """Types, tolerances and determinism that a task requires."""

    dtype: str
    """Output dtype; a float dtype if there is one."""
    accumulation: str
    """Coarsest dtype allowed for accumulating sums."""
    reduction_length: float
    """Number of terms in the longest sum."""
    deterministic: bool
    """Whether equal inputs must give bitwise equal outputs; False if the reference draws random numbers."""
    atol: float
    """Absolute tolerance, in units of the root mean square of the expected output."""
    rtol: float
    """Relative tolerance."""


def numeric_contract(task: Task) -> NumericContract:
    """Derive the numeric requirements from the task's signature, work and tolerances."""
    outputs = sorted((tensor.dtype for tensor in task.signature.outputs), key=lambda dtype: dtype not in EPSILON)
    floats = {t.dtype for t in (*task.signature.inputs, *task.signature.params, *task.signature.outputs) if t.dtype in EPSILON}
    accumulation = "float32" if floats - {"float64"} else "float64" if floats else "int64"
    return NumericContract(outputs[0], accumulation, task.work.reduction_length, "random" not in task.tags, task.atol, task.rtol)


class ErrorLimit(NamedTuple):
    """How far a kernel may be from the reference in float64, in units of (|truth| + rms)."""

    multiple: float
    """Allowed multiple of the reference's own error."""
    floor: float
    """The reference's error counts as at least this."""


def error_limit(task: Task) -> ErrorLimit | None:
    """Return the limit on a kernel's error that applies besides the task's tolerance; None if there is none for the first float output."""
    dtype = next((tensor.dtype for tensor in task.signature.outputs if tensor.dtype in EPSILON), "float64")
    is_wide = max(task.atol, task.rtol) > default_tolerance(task.signature)
    if dtype == "float64" or is_wide or "random" in task.tags:
        return None
    if dtype in HALVES:
        return ErrorLimit(KAPPA_HALF, MIN_ERROR_EPSILONS_HALF * EPSILON[dtype])
    return ErrorLimit(KAPPA, MIN_ERROR_EPSILONS * EPSILON[dtype])  # the smallest multiple: sums are shorter at other sizes


def max_error_multiple(reduction_length: float) -> float:
    """Return the allowed multiple of the reference's error for sums of this length."""
    return KAPPA * max(1.0, sqrt(reduction_length / BASE_REDUCTION_LENGTH))


def default_tolerance(signature: Signature) -> float:
    """Return the tolerance for the coarsest output dtype; if all tensors are float64, a float32 computation must not pass."""
    if any(tensor.dtype in HALVES for tensor in signature.outputs):
        return 1e-2
    floats = {t.dtype for t in (*signature.inputs, *signature.params, *signature.outputs) if t.dtype in EPSILON}
    return 1e-9 if floats == {"float64"} else 1e-4
