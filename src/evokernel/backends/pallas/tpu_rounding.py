"""Adds the rounding of the TPU to a traced program: of matrix-unit operands, and of every result with a narrow dtype.

Interpret mode alone multiplies exactly, and a CPU compiler computes a chain of narrow operations in float32 without rounding between
them. Without the added rounding, a kernel would appear more accurate than it is on the TPU.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax._src import core
from jax._src.lax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr

NARROW_DTYPES = (jnp.dtype("bfloat16"), jnp.dtype("float16"))
DATA_MOVEMENT = ("get", "swap", "masked_load", "masked_swap", "reshape", "transpose", "broadcast_in_dim", "squeeze", "slice", "select_n")
"""Primitives that move values without changing them."""


def add_tpu_rounding(jaxpr: Any) -> Any:
    """The same program, with the operands of float32 matrix products at default precision rounded to bfloat16: one pass of the MXU.

    Precision HIGHEST stays exact. HIGH has no lowering for the TPU, so no program with it gets this far. Values with a narrow dtype are
    rounded by operations that no compiler removes.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        return ClosedJaxpr(add_tpu_rounding(jaxpr.jaxpr), jaxpr.consts)
    equations = [last for equation in jaxpr.eqns for new in _round_operands(equation) for last in _round_narrow_results(new)]
    return jaxpr.replace(eqns=equations)


def _round_operands(equation: Any) -> list[Any]:
    if equation.primitive.name == "multiple_of":
        return _round_down_multiple_of(equation)
    if equation.primitive is not lax.dot_general_p:
        params = {name: _round_nested(value) for name, value in equation.params.items()}
        return [equation.replace(params=params)]
    if not is_one_pass(equation.params["precision"]):
        return [equation]
    before, operands = [], []
    for operand in equation.invars:
        if operand.aval.dtype == "float32":
            rounded_operand = core.Var(operand.aval)
            params = {"exponent_bits": 8, "mantissa_bits": 7}
            before.append(core.new_jaxpr_eqn([operand], [rounded_operand], lax.reduce_precision_p, params, set(), equation.source_info))
            operand = rounded_operand
        operands.append(operand)
    return [*before, equation.replace(invars=operands)]


def _round_narrow_results(equation: Any) -> list[Any]:
    """An equation, followed by the rounding of its narrow results: to float32, reduce precision to the dtype's bits, and back."""
    if equation.primitive.name in DATA_MOVEMENT or any(True for _ in core.jaxprs_in_params(equation.params)):
        return [equation]
    after, results = [], list(equation.outvars)
    for index, result in enumerate(results):
        if not isinstance(result.aval, core.ShapedArray) or result.aval.dtype not in NARROW_DTYPES or isinstance(result, core.DropVar):
            continue
        wide = result.aval.update(dtype=np.dtype("float32"), weak_type=False)
        exact, wide_value, reduced = core.Var(result.aval), core.Var(wide), core.Var(wide)
        kind, results[index] = jnp.finfo(result.aval.dtype), exact
        bits = {"exponent_bits": kind.nexp, "mantissa_bits": kind.nmant}
        back = {"new_dtype": result.aval.dtype, "weak_type": result.aval.weak_type, "sharding": None}
        forth = {"new_dtype": wide.dtype, "weak_type": False, "sharding": None}
        for operand, output, primitive, params in (
            (exact, wide_value, lax.convert_element_type_p, forth),
            (wide_value, reduced, lax.reduce_precision_p, bits),
            (reduced, result, lax.convert_element_type_p, back),
        ):
            after.append(core.new_jaxpr_eqn([operand], [output], primitive, params, set(), equation.source_info))
    return [equation.replace(outvars=results), *after] if after else [equation]


def _round_down_multiple_of(equation: Any) -> list[Any]:
    """Replaces `pl.multiple_of(x, n)` by `x - x % n`, as hardware that drops the low bits would compute a false promise."""
    (operand,), (result,) = equation.invars, equation.outvars
    values = equation.params["values"]
    steps, aval = [], core.ShapedArray((), result.aval.dtype)
    for index, value in enumerate(values):
        rest, rounded_down = core.Var(aval), result if index + 1 == len(values) else core.Var(aval)
        factor = core.Literal(np.asarray(value, aval.dtype), aval)
        steps.append(core.new_jaxpr_eqn([operand, factor], [rest], lax.rem_p, {}, set(), equation.source_info))
        steps.append(core.new_jaxpr_eqn([operand, rest], [rounded_down], lax.sub_p, {}, set(), equation.source_info))
        operand = rounded_down
    return steps or [equation]


def _round_nested(value: Any) -> Any:
    if isinstance(value, (ClosedJaxpr, Jaxpr)):
        return add_tpu_rounding(value)
    if isinstance(value, (tuple, list)) and any(isinstance(item, (ClosedJaxpr, Jaxpr)) for item in value):
        return type(value)(add_tpu_rounding(item) for item in value)
    return value


def is_one_pass(precision: Any) -> bool:
    """Whether a matrix product of this precision takes one pass of the MXU."""
    first = precision[0] if isinstance(precision, tuple) else precision
    return first is None or first == lax.Precision.DEFAULT
