"""Arithmetic with bfloat16 in Triton's interpreter, which keeps such numbers as whole ones and computes with their bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

COMPUTING = ("binary_op", "ternary_op", "unary_op", "create_fma", "create_fabs", "create_dot")
"""What the interpreter computes with; all else moves numbers, or turns them into others."""
ROUND, LAST = 0x7FFF, 16


def mend() -> None:
    """Has the interpreter compute in float32 and round, as the device does; once."""
    builder = interpreter.InterpreterBuilder
    if hasattr(builder, "get_bf16"):
        return
    builder.get_bf16 = lambda self, value: TensorHandle(narrowed(np.array([value], np.float32)), tl.bfloat16)
    for name in COMPUTING:
        setattr(builder, name, in_float32(getattr(builder, name)))
    builder.cast_impl = rounding(builder.cast_impl)
    summed = interpreter.ReduceOps.sum
    interpreter.ReduceOps.sum = lambda self, input: (
        summed(self, input) if input.dtype.scalar != tl.bfloat16 else sum_of(self, input, summed)
    )


def in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for operands of bfloat16. The result is one where the last operand is, which for a product is what is added to."""

    def computed(self: Any, *args: Any) -> Any:
        narrow = [isinstance(one, TensorHandle) and one.dtype.scalar == tl.bfloat16 for one in args]
        if not any(narrow):
            return function(self, *args)
        found = function(self, *(wide(one) if is_narrow else one for one, is_narrow in zip(args, narrow)))
        is_last = [flag for one, flag in zip(args, narrow) if isinstance(one, TensorHandle)][-1]
        if found.data.dtype == np.bool_:
            return TensorHandle(found.data, tl.int1)
        return TensorHandle(narrowed(found.data), tl.bfloat16) if is_last else found

    return computed


def rounding(cast: Callable[..., Any]) -> Callable[..., Any]:
    """The same for numbers that become bfloat16: rounded, and not cut off; and for those of bfloat16 that become others."""

    def turned(self: Any, source: Any, kind: Any) -> Any:
        before, after = source.dtype.scalar, kind.scalar
        if tl.bfloat16 not in (before, after) or before == after:
            return cast(self, source, kind)
        found = cast(self, wide(source), kind) if before == tl.bfloat16 else cast(self, source, tl.float32)
        return found if before == tl.bfloat16 else TensorHandle(narrowed(found.data), tl.bfloat16)

    return turned


def sum_of(reduce: Any, input: Any, summed: Callable[..., Any]) -> Any:
    """Along an axis."""
    found = summed(reduce, tl.core.tensor(wide(input.handle), tl.core.block_type(tl.float32, input.shape)))
    kind = tl.core.block_type(tl.bfloat16, found.shape) if found.type.is_block() else tl.bfloat16
    return tl.core.tensor(TensorHandle(narrowed(np.asarray(found.handle.data)), tl.bfloat16), kind)


def wide(handle: Any) -> Any:
    return TensorHandle((handle.data.astype(np.uint32) << LAST).view(np.float32), tl.float32)


def narrowed(data: np.ndarray) -> np.ndarray:
    """The nearest numbers, of two as near the even one."""
    values = np.ascontiguousarray(data, np.float32)
    bits = values.view(np.uint32)
    rounded = ((bits + ROUND + ((bits >> LAST) & 1)) >> LAST).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16)
