"""Reductions and scans with a function of the candidate's own, on blocks: Triton's interpreter calls it for one element after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import ReduceOps, ScanOps, TensorHandle

Blocks = list[np.ndarray]
active_ops: list[Any] = []
"""The reductions and scans that are on blocks right now."""


class NeedsScalars(Exception):
    """A combine function branches on its operands, so it cannot take blocks."""


def patch_combine() -> None:
    """Patches the interpreter once; a combine function that branches is still called element by element."""
    if getattr(ReduceOps, "is_on_blocks", False):
        return
    ReduceOps.is_on_blocks = True
    ReduceOps.generic_reduce = prefer_blocks(reduce_blocks, ReduceOps.generic_reduce)
    ScanOps.generic_scan = prefer_blocks(scan_blocks, ScanOps.generic_scan)
    patch_tensor = interpreter._patch_lang_tensor

    def patch_branches(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        is_true = tensor.__bool__

        def branch(operand: Any) -> bool:
            if operand.handle.data.size != 1 and active_ops:
                raise NeedsScalars
            return bool(is_true(operand))

        scope.set_attr(tensor, "__bool__", branch)

    interpreter._patch_lang_tensor = patch_branches


def prefer_blocks(on_blocks: Callable[..., Any], by_element: Callable[..., Any]) -> Callable[..., Any]:
    def apply(ops: Any, input: Any) -> Any:
        active_ops.append(ops)
        try:
            return on_blocks(ops, input)
        except NeedsScalars:
            pass
        finally:
            active_ops.pop()
        return by_element(ops, input)

    return apply


def reduce_blocks(ops: Any, input: Any) -> list[Any]:
    """Combines neighbours until one element is left along the axis. The order of the operands is kept, as for any associative function."""
    inputs, axis = ops.unravel(input, ops.axis)
    blocks = [np.moveaxis(one.handle.data, axis, 0) for one in inputs]
    while len(blocks[0]) > 1:  # a power of two
        blocks = combine_blocks(ops, inputs, [block[0::2] for block in blocks], [block[1::2] for block in blocks])
    results = [block[0] for block in blocks]
    if ops.keep_dims:
        results = [np.expand_dims(one, axis if ops.axis is not None else tuple(range(input[0].handle.data.ndim))) for one in results]
    return [ops.to_tensor(one, tensor.dtype) for one, tensor in zip(results, inputs)]


def scan_blocks(ops: Any, input: Any) -> list[Any]:
    """Combines every element with the results 1, 2, 4, ... places before it."""
    blocks = [np.moveaxis(one.handle.data, ops.axis, 0).copy() for one in input]
    distance = 1
    while distance < len(blocks[0]):
        later = combine_blocks(ops, input, [np.roll(block, distance, axis=0) for block in blocks], blocks)
        blocks = [np.concatenate([block[:distance], one[distance:]]) for block, one in zip(blocks, later)]
        distance *= 2
    return [ops.to_tensor(np.moveaxis(block, 0, ops.axis), tensor.dtype) for block, tensor in zip(blocks, input)]


def combine_blocks(ops: Any, tensors: Any, left: Blocks, right: Blocks) -> Blocks:
    """Applies the combine function to two blocks per operand."""
    operands = [make_tensor(data, tensor.dtype) for side in (left, right) for data, tensor in zip(side, tensors)]
    results = ops.combine_fn.fn(*operands)
    results = results if isinstance(results, tuple) else (results,)
    return [as_block(result, data) for result, data in zip(results, left)]


def make_tensor(data: np.ndarray, dtype: Any) -> Any:
    return tl.core.tensor(TensorHandle(np.ascontiguousarray(data), dtype.scalar), tl.block_type(dtype.scalar, list(data.shape)))


def as_block(result: Any, operand: np.ndarray) -> np.ndarray:
    """Returns a result as a block of the operand's shape and type; a combine function may also return a number."""
    data = result.handle.data if isinstance(result, tl.core.tensor) else result
    return np.broadcast_to(np.asarray(data, operand.dtype), operand.shape)
