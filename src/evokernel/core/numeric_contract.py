"""Numeric requirements of a task: dtypes, tolerances, determinism."""

from __future__ import annotations

from math import sqrt
from typing import Literal, NamedTuple

from evokernel.core.records import Signature, Task

KAPPA, KAPPA_HALF, BASE_REDUCTION_LENGTH = 64.0, 4.0, 512
"""The allowed multiple of the reference's error, for reductions up to this length; beyond it grows with the square root of the length."""
MIN_ERROR_EPSILONS, MIN_ERROR_EPSILONS_HALF = 0.25, 0.5
"""The reference's error counts as at least this many epsilons of the output type, because it may be small by chance."""
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "complex64": 2.0**-23}
HALVES = ("float16", "bfloat16")
FLUSHED_DTYPES, SMALLEST_NORMAL = ("float32", "bfloat16"), 2.0**-126
"""Types whose numbers below the smallest normal one many chips replace by zero; a smaller error decides nothing."""
MAX_REFERENCE_ERROR, MAX_REFERENCE_ERROR_HALF = 0.01, 0.25
"""Inputs on which the reference itself errs by more than this cannot verify a kernel."""
MAX_JUMP_SHARE, MIN_JUMP_COUNT, MAX_JUMP_OVERSHOOT = 0.05, 4, 2
"""At most this share of the elements, or this count, may be explained by jumps of the operator; a value may overshoot a jump this many
times its height."""
ROUNDING_STEPS = (1.0, 2.0, 4.0) * 8
"""How many roundings the inputs move by to find jumps of an operator. Both sides of a quotient move, and rarely apart: six trials miss one
tie in fifty."""
VANISHING_SHARE = 1e-4
"""Shifted inputs whose outputs shrink below this share of the usual size only show the flat tail of a function."""


class ToleranceRule(NamedTuple):
    """How far an output may be from the truth: `error_share` of (|truth| + rms), the task's own tolerance, or both, as `combine` says."""

    atol: float
    rtol: float
    error_share: float | None = None
    """None if only the task's tolerance counts."""
    combine: Literal["min", "max"] = "min"
    """Whether the smaller or the larger of the two tolerances applies."""
    atol_unit: float | None = None
    """The unit of the absolute tolerance; the root mean square of the truth if None."""


PAPER_RULE = ToleranceRule(atol=1e-2, rtol=1e-2, atol_unit=1.0)
"""|actual - reference| <= 0.01 + 0.01 |reference|, as in many published benchmarks."""


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


def compute_error_share(error: float, dtype: str, reduction_length: float, rounds_to_half: bool) -> float:
    """Return the allowed error in units of (|truth| + rms), from the reference's own error in these units and its longest sum."""
    if dtype in HALVES or rounds_to_half:
        return KAPPA_HALF * max(error, MIN_ERROR_EPSILONS_HALF * EPSILON[dtype])
    return max_error_multiple(reduction_length) * max(error, MIN_ERROR_EPSILONS * EPSILON[dtype])


def make_tolerance_rule(signature: Signature, atol: float, rtol: float, kind: str, error_share: float | None) -> ToleranceRule:
    """Combine both tolerances: the smaller on a task's own inputs; the larger on other inputs, or if the task asks for an unusually wide
    one."""
    is_wide = max(atol, rtol) > default_tolerance(signature) * (1 + 1e-9)
    return ToleranceRule(atol, rtol, error_share, "max" if is_wide or kind != "own" else "min")


def has_half_tensors(signature: Signature) -> bool:
    """Whether a kernel reads or writes numbers of half precision."""
    return any(tensor.dtype in HALVES for tensor in (*signature.inputs, *signature.params, *signature.outputs))
