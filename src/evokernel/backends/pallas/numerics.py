"""What the chip rounds, put into a traced program: the matrix unit its operands, and narrow types every result.

Interpret mode alone multiplies exactly, and a compiler for CPUs computes a chain of narrow operations in float32 without rounding between
them, so that a kernel would be found more exact than it is.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax._src import core
from jax._src.lax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr

NARROW = (jnp.dtype("bfloat16"), jnp.dtype("float16"))
MOVES = ("get", "swap", "masked_load", "masked_swap", "reshape", "transpose", "broadcast_in_dim", "squeeze", "slice", "select_n")
"""Operations whose results are values that were there before."""


def rounded(jaxpr: Any) -> Any:
    """The same program, its float32 matrix products at default precision with operands rounded to bfloat16: one pass of the MXU.

    Precision HIGHEST stays exact. HIGH has no lowering for the TPU, so no program with it comes this far. What has a narrow type is rounded
    to it by operations that no compiler leaves out.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        return ClosedJaxpr(rounded(jaxpr.jaxpr), jaxpr.consts)
    equations = [last for equation in jaxpr.eqns for new in _equations(equation) for last in _narrowed(new)]
    return jaxpr.replace(eqns=equations)


def _equations(equation: Any) -> list[Any]:
    if equation.primitive.name == "multiple_of":
        return _multiple(equation)
    if equation.primitive is not lax.dot_general_p:
        params = {name: _inside(value) for name, value in equation.params.items()}
        return [equation.replace(params=params)]
    if not one_pass(equation.params["precision"]):
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


def _narrowed(equation: Any) -> list[Any]:
    """An operation, and the rounding of its narrow results: to float32, to as many bits as the type has, and back."""
    if equation.primitive.name in MOVES or any(True for _ in core.jaxprs_in_params(equation.params)):
        return [equation]
    after, results = [], list(equation.outvars)
    for index, result in enumerate(results):
        if not isinstance(result.aval, core.ShapedArray) or result.aval.dtype not in NARROW or isinstance(result, core.DropVar):
            continue
        wide = result.aval.update(dtype=np.dtype("float32"), weak_type=False)
        exact, widened, cut = core.Var(result.aval), core.Var(wide), core.Var(wide)
        kind, results[index] = jnp.finfo(result.aval.dtype), exact
        bits = {"exponent_bits": kind.nexp, "mantissa_bits": kind.nmant}
        back = {"new_dtype": result.aval.dtype, "weak_type": result.aval.weak_type, "sharding": None}
        forth = {"new_dtype": wide.dtype, "weak_type": False, "sharding": None}
        for operand, made, primitive, params in (
            (exact, widened, lax.convert_element_type_p, forth),
            (widened, cut, lax.reduce_precision_p, bits),
            (cut, result, lax.convert_element_type_p, back),
        ):
            after.append(core.new_jaxpr_eqn([operand], [made], primitive, params, set(), equation.source_info))
    return [equation.replace(outvars=results), *after] if after else [equation]


def _multiple(equation: Any) -> list[Any]:
    """A promise that a number is a multiple of another, taken at its word: `x - x % n`, as hardware that drops low bits would."""
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


def _inside(value: Any) -> Any:
    if isinstance(value, (ClosedJaxpr, Jaxpr)):
        return rounded(value)
    if isinstance(value, (tuple, list)) and any(isinstance(item, (ClosedJaxpr, Jaxpr)) for item in value):
        return type(value)(rounded(item) for item in value)
    return value


def one_pass(precision: Any) -> bool:
    """Whether a product of this precision takes one pass of the MXU."""
    first = precision[0] if isinstance(precision, tuple) else precision
    return first is None or first == lax.Precision.DEFAULT
