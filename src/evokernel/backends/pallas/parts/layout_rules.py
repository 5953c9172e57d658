"""Builds the lazy arrays of a traced program: a rule for every operation outside kernels that moves data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from evokernel.backends.pallas.interpret import CALL_PRIMITIVES
from evokernel.backends.pallas.parts.lazy_arrays import AxisMap, ComputedArray, HeldArray, LazyArray, MovedArray
from evokernel.backends.pallas.program_rules import source_line

MakeKernel: TypeAlias = Callable[[Any, list[LazyArray]], list[LazyArray]]
"""The outputs of a `pallas_call` equation with these operands."""

SAME_ORDER = (
    *("reshape", "squeeze", "expand_dims", "convert_element_type", "copy", "copy_p"),
    *("stop_gradient", "optimization_barrier", "reshard"),
)
"""Operations whose results have the elements of their operands in the same order, one result for each operand."""


def build_arrays(jaxpr: Jaxpr, constants: Sequence[Any], inputs: Sequence[LazyArray], make_kernel: MakeKernel) -> list[LazyArray]:
    """The outputs of a program as lazy arrays."""
    held = [HeldArray(np.asarray(value), is_constant=True) for value in constants]
    arrays: dict[Any, LazyArray] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*held, *inputs], strict=True))

    def get(atom: Any) -> LazyArray:
        return HeldArray(np.asarray(atom.val, atom.aval.dtype), is_constant=True) if isinstance(atom, Literal) else arrays[atom]

    for equation in jaxpr.eqns:
        operands, params = [get(atom) for atom in equation.invars], equation.params
        inner = params.get("jaxpr") or params.get("call_jaxpr")
        if equation.primitive.name == "pallas_call":
            results = make_kernel(equation, operands)
        elif equation.primitive.name in CALL_PRIMITIVES and isinstance(inner, ClosedJaxpr | Jaxpr):
            closed = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())
            results = build_arrays(closed.jaxpr, closed.consts, operands, make_kernel)
        else:
            results = apply_operation(equation, operands)
        arrays.update(zip(equation.outvars, results, strict=True))
    return [get(atom) for atom in jaxpr.outvars]


def apply_operation(equation: Any, operands: list[LazyArray]) -> list[LazyArray]:
    """The results of an operation outside kernels."""
    name, avals = equation.primitive.name, [variable.aval for variable in equation.outvars]
    if name in SAME_ORDER and not (name == "reshape" and equation.params["dimensions"]):
        return [keep_order(operand, aval) for operand, aval in zip(operands, avals, strict=True)]
    if name == "split":
        return list(split_array(equation, operands[0]))
    rule = RULES.get(name)
    if rule and (moved := rule(equation.params, operands, avals[0])) is not None:
        return [moved]
    shared: list[np.ndarray] = []
    where = f" ({line})" if (line := source_line(equation)) else ""
    return [ComputedArray(equation, operands, output, shared, where) for output in range(len(avals))]


def keep_order(operand: LazyArray, aval: Any) -> LazyArray:
    """A reshape or a cast."""
    if isinstance(operand, HeldArray):
        try:
            return HeldArray(operand.data.reshape(aval.shape, copy=False), aval.dtype, operand.is_constant)
        except ValueError:  # not a view
            pass
    return MovedArray([(operand, None)], aval.shape, aval.dtype)


def transpose(params: dict[str, Any], operands: list[LazyArray], aval: Any) -> LazyArray:
    order = params["permutation"]
    if isinstance(operands[0], HeldArray):
        return operands[0].with_view(operands[0].data.transpose(order))
    axes = [order.index(axis) for axis in range(len(order))]
    return MovedArray([(operands[0], AxisMap(operands[0].shape, aval.shape, axes))], aval.shape, aval.dtype)


def slice_array(params: dict[str, Any], operands: list[LazyArray], aval: Any) -> LazyArray:
    starts, stops, strides = params["start_indices"], params["limit_indices"], params["strides"] or (1,) * len(aval.shape)
    return take_slice(operands[0], starts, stops, strides, aval)


def take_slice(operand: LazyArray, starts: Sequence[int], stops: Sequence[int], strides: Sequence[int], aval: Any) -> LazyArray:
    if isinstance(operand, HeldArray):
        return operand.with_view(operand.data[tuple(map(slice, starts, stops, strides))])
    return MovedArray([(operand, AxisMap(operand.shape, aval.shape, factor=strides, offset=starts))], aval.shape, aval.dtype)


def split_array(equation: Any, operand: LazyArray) -> Any:
    axis, rank = equation.params["axis"], len(operand.shape)
    edges = [0, *itertools.accumulate(equation.params["sizes"])]
    for first, last, variable in zip(edges, edges[1:], equation.outvars):
        starts = [first if dimension == axis else 0 for dimension in range(rank)]
        stops = [last if dimension == axis else size for dimension, size in enumerate(operand.shape)]
        yield take_slice(operand, starts, stops, (1,) * rank, variable.aval)


def pad(params: dict[str, Any], operands: list[LazyArray], aval: Any) -> LazyArray:
    config = params["padding_config"]
    rule = AxisMap(operands[0].shape, aval.shape, offset=[-low for low, _, _ in config], divisor=[gap + 1 for _, _, gap in config])
    return MovedArray([(operands[0], rule)], aval.shape, aval.dtype, operands[1])


def concatenate(params: dict[str, Any], operands: list[LazyArray], aval: Any) -> LazyArray:
    axis, pieces, first = params["dimension"], [], 0
    for operand in operands:
        offset = [-first if dimension == axis else 0 for dimension in range(len(aval.shape))]
        pieces.append((operand, AxisMap(operand.shape, aval.shape, offset=offset)))
        first += operand.shape[axis]
    return MovedArray(pieces, aval.shape, aval.dtype)


def reverse(params: dict[str, Any], operands: list[LazyArray], aval: Any) -> LazyArray:
    turned = [dimension in params["dimensions"] for dimension in range(len(aval.shape))]
    if isinstance(operands[0], HeldArray):
        return operands[0].with_view(operands[0].data[tuple(slice(None, None, -1 if turn else 1) for turn in turned)])
    offset = [size - 1 if turn else 0 for turn, size in zip(turned, aval.shape)]
    rule = AxisMap(aval.shape, aval.shape, factor=[-1 if turn else 1 for turn in turned], offset=offset)
    return MovedArray([(operands[0], rule)], aval.shape, aval.dtype)


def broadcast(params: dict[str, Any], operands: list[LazyArray], aval: Any) -> LazyArray:
    axes, operand = params["broadcast_dimensions"], operands[0]
    if operand.size == math.prod(aval.shape):
        return keep_order(operand, aval)
    if isinstance(operand, HeldArray):
        spread = [operand.shape[axes.index(axis)] if axis in axes else 1 for axis in range(len(aval.shape))]
        return operand.with_view(np.broadcast_to(operand.data.reshape(spread), aval.shape))
    factor = [int(size == aval.shape[axis]) for size, axis in zip(operand.shape, axes)]
    return MovedArray([(operand, AxisMap(operand.shape, aval.shape, axes, factor))], aval.shape, aval.dtype)


def dynamic_slice(params: dict[str, Any], operands: list[LazyArray], aval: Any) -> LazyArray | None:
    starts = constant_starts(operands[1:], operands[0].shape, aval.shape)
    if starts is None:
        return None
    return take_slice(operands[0], starts, [first + size for first, size in zip(starts, aval.shape)], (1,) * len(starts), aval)


def dynamic_update_slice(params: dict[str, Any], operands: list[LazyArray], aval: Any) -> LazyArray | None:
    starts = constant_starts(operands[2:], aval.shape, operands[1].shape)
    if starts is None:
        return None
    rule = AxisMap(operands[1].shape, aval.shape, offset=[-first for first in starts])
    return MovedArray([(operands[1], rule), (operands[0], None)], aval.shape, aval.dtype)


def constant_starts(indices: Sequence[LazyArray], shape: Sequence[int], window: Sequence[int]) -> list[int] | None:
    """The first indices of a window, clamped to the array; None if they are not constants."""
    if not all(index.is_constant for index in indices):
        return None
    values = [int(index.read_all()) for index in indices]
    return [min(max(value, 0), size - part) for value, size, part in zip(values, shape, window)]


RULES: dict[str, Callable[[dict[str, Any], list[LazyArray], Any], LazyArray | None]] = {
    "transpose": transpose,
    "slice": slice_array,
    "pad": pad,
    "concatenate": concatenate,
    "rev": reverse,
    "broadcast_in_dim": broadcast,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
}
