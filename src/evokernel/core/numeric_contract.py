"""Numeric requirements of a task: dtypes, tolerances, determinism."""

from __future__ import annotations

from typing import NamedTuple

from evokernel.core.records import Task


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
    outputs = sorted((tensor.dtype for tensor in task.signature.outputs), key=lambda dtype: "float" not in dtype)
    floats = {t.dtype for t in (*task.signature.inputs, *task.signature.params, *task.signature.outputs) if "float" in t.dtype}
    accumulation = "float32" if floats - {"float64"} else "float64" if floats else "int64"
    return NumericContract(outputs[0], accumulation, task.work.reduction_length, "random" not in task.tags, task.atol, task.rtol)
