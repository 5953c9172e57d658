"""Products in TF32: Triton's interpreter computes in float32, and `tl.dot` of float32 blocks uses TF32 unless it says otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

DROPPED_BITS = 13
"""TF32 has 10 bits of mantissa, float32 has 23."""


def patch_dot() -> None:
    """Patches the interpreter's product, once per process."""
    multiply = InterpreterBuilder.create_dot

    def multiply_in_tf32(builder: Any, a: Any, b: Any, total: Any, precision: Any, *rest: Any) -> Any:
        if precision == ir.INPUT_PRECISION.TF32 and a.dtype.scalar == tl.float32:
            a, b = (TensorHandle(round_to_tf32(one.data), tl.float32) for one in (a, b))
        return multiply(builder, a, b, total, precision, *rest)

    InterpreterBuilder.create_dot = multiply_in_tf32


def round_to_tf32(data: np.ndarray) -> np.ndarray:
    """Rounds float32 values to the nearest TF32 value; infinities and NaN stay."""
    bits = np.ascontiguousarray(data, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(1 << (DROPPED_BITS - 1))) >> np.uint32(DROPPED_BITS) << np.uint32(DROPPED_BITS)).view(np.float32)
    return np.where(np.isfinite(data), rounded, data)
