"""What a task asks of a kernel's arithmetic."""

from __future__ import annotations

from typing import NamedTuple

from evokernel.core.records import Task


class NumericContract(NamedTuple):
    """The numeric contract of a task."""

    dtype: str
    """Of the outputs, floats before others."""
    accumulation: str
    """What sums are kept in, or finer."""
    terms: float
    """How many the longest sum has."""
    deterministic: bool
    """Whether equal inputs must give equal bits; not where the reference itself draws random numbers."""
    atol: float
    """In units of the root mean square of what is expected."""
    rtol: float


def numeric_contract(task: Task) -> NumericContract:
    """Read off the signature and what running the reference showed."""
    outputs = sorted((tensor.dtype for tensor in task.signature.outputs), key=lambda dtype: "float" not in dtype)
    floats = {t.dtype for t in (*task.signature.inputs, *task.signature.params, *task.signature.outputs) if "float" in t.dtype}
    accumulation = "float32" if floats - {"float64"} else "float64" if floats else "int64"
    return NumericContract(outputs[0], accumulation, task.work.reduction_length, "random" not in task.tags, task.atol, task.rtol)
