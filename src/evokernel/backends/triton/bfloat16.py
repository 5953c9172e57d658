"""Correct bfloat16 arithmetic in Triton's interpreter, which stores bfloat16 as integers and computes with their bit patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

ARITHMETIC_METHODS = ("binary_op", "ternary_op", "unary_op", "create_fma", "create_fabs", "create_dot")
"""Methods of the interpreter that compute; the others move or convert numbers."""
ROUNDING_BIAS, BFLOAT16_SHIFT = 0x7FFF, 16


def patch_interpreter() -> None:
    """Patches the interpreter once, so that it computes in float32 and rounds, as the device does."""
    builder = interpreter.InterpreterBuilder
    if hasattr(builder, "get_bf16"):
        return
    builder.get_bf16 = lambda self, value: TensorHandle(round_to_bfloat16(np.array([value], np.float32)), tl.bfloat16)
    for name in ARITHMETIC_METHODS:
        setattr(builder, name, compute_in_float32(getattr(builder, name)))
    builder.cast_impl = round_casts(builder.cast_impl)
    original_sum = interpreter.ReduceOps.sum
    interpreter.ReduceOps.sum = lambda self, input: (
        original_sum(self, input) if input.dtype.scalar != tl.bfloat16 else sum_bfloat16(self, input, original_sum)
    )


def compute_in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method so that it computes bfloat16 operands in float32.

    The result is bfloat16 if the last operand is; for a product, that is the accumulator.
    """

    def compute(self: Any, *args: Any) -> Any:
        narrow = [isinstance(one, TensorHandle) and one.dtype.scalar == tl.bfloat16 for one in args]
        if not any(narrow):
            return function(self, *args)
        result = function(self, *(to_float32(one) if is_narrow else one for one, is_narrow in zip(args, narrow)))
        is_last = [flag for one, flag in zip(args, narrow) if isinstance(one, TensorHandle)][-1]
        if result.data.dtype == np.bool_:
            return TensorHandle(result.data, tl.int1)
        return TensorHandle(round_to_bfloat16(result.data), tl.bfloat16) if is_last else result

    return compute


def round_casts(cast: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the cast so that conversions to bfloat16 round instead of truncate, and conversions from bfloat16 use its value."""

    def convert(self: Any, source: Any, kind: Any) -> Any:
        before, after = source.dtype.scalar, kind.scalar
        if tl.bfloat16 not in (before, after) or before == after:
            return cast(self, source, kind)
        result = cast(self, to_float32(source), kind) if before == tl.bfloat16 else cast(self, source, tl.float32)
        return result if before == tl.bfloat16 else TensorHandle(round_to_bfloat16(result.data), tl.bfloat16)

    return convert


def sum_bfloat16(reduce: Any, input: Any, original_sum: Callable[..., Any]) -> Any:
    """Sums a bfloat16 tensor along an axis in float32."""
    result = original_sum(reduce, tl.core.tensor(to_float32(input.handle), tl.core.block_type(tl.float32, input.shape)))
    kind = tl.core.block_type(tl.bfloat16, result.shape) if result.type.is_block() else tl.bfloat16
    return tl.core.tensor(TensorHandle(round_to_bfloat16(np.asarray(result.handle.data)), tl.bfloat16), kind)


def to_float32(handle: Any) -> Any:
    return TensorHandle((handle.data.astype(np.uint32) << BFLOAT16_SHIFT).view(np.float32), tl.float32)


def round_to_bfloat16(data: np.ndarray) -> np.ndarray:
    """Rounds float32 values to the nearest bfloat16, ties to even; returns bit patterns."""
    values = np.ascontiguousarray(data, np.float32)
    bits = values.view(np.uint32)
    rounded = ((bits + ROUNDING_BIAS + ((bits >> BFLOAT16_SHIFT) & 1)) >> BFLOAT16_SHIFT).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16)
