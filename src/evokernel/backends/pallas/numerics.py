"""What the matrix unit does to float32 operands, put into a traced program: interpret mode alone multiplies exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax._src import core
from jax._src.lax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr


def rounded(jaxpr: Any) -> Any:
    """The same program, its float32 matrix products at default precision with operands rounded to bfloat16: one pass of the MXU.

    Precision HIGHEST stays exact. HIGH has no lowering for the TPU, so no program with it comes this far.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        return ClosedJaxpr(rounded(jaxpr.jaxpr), jaxpr.consts)
    equations = [new for equation in jaxpr.eqns for new in _equations(equation)]
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
