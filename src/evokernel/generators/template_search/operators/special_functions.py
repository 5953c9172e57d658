"""Lowerings of less common elementwise functions and activations, written in terms of the basic steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from evokernel.generators.template_search.graph import (
    Node,
    Num,
    UnsupportedPattern,
    apply,
    as_integer,
    as_node,
    as_num,
    calculate,
    make_index,
    make_select,
    unsqueeze,
)  # fmt: skip
from evokernel.generators.template_search.operators.compute_intensive import require_shape
from evokernel.generators.template_search.operators.data_movement import expand, slice_axis
from evokernel.generators.template_search.operators.elementwise import cast, clamp, sigmoid
from evokernel.generators.template_search.operators.reductions import as_channel_vector

MAX_FLOAT = 3.4028234663852886e38


def sign(x: object) -> Node:
    """1, 0 or -1."""
    return apply("sub", make_select(">", x, 0.0, 1.0, 0.0), make_select("<", x, 0.0, 1.0, 0.0))


def ceil(x: object) -> Node:
    """Rounded up."""
    return apply("neg", apply("floor", apply("neg", x)))


def trunc(x: object) -> Node:
    """Rounded towards zero."""
    return make_select("<", x, 0.0, ceil(x), apply("floor", x))


def fmod(x: object, y: object) -> Node:
    """The remainder of a division, with the dividend's sign."""
    return apply("sub", x, apply("mul", trunc(apply("div", x, y)), y))


def softshrink(x: object, limit: object = 0.5) -> Node:
    """x moved towards zero by the limit."""
    return apply("sub", apply("max", apply("sub", x, limit), 0.0), apply("max", apply("sub", apply("neg", x), limit), 0.0))


def hardshrink(x: object, limit: object = 0.5) -> Node:
    """x, and zero near zero."""
    return make_select(">", apply("abs", x), limit, x, 0.0)


def celu(x: object, alpha: object = 1.0) -> Node:
    """max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)."""
    return apply(
        "add", apply("max", x, 0.0), apply("mul", alpha, apply("sub", apply("exp", apply("div", apply("min", x, 0.0), alpha)), 1.0))
    )


def threshold(x: object, limit: object, value: object) -> Node:
    """x above the limit, the value elsewhere."""
    return make_select(">", x, limit, x, value)


def prelu(x: object, weight: object) -> Node:
    """max(x, 0) + weight * min(x, 0), with one weight or one per channel."""
    node, slope = as_node(x), as_node(weight)
    if len(node.shape) > 1 and len(slope.shape) == 1:
        slope = as_node(as_channel_vector(slope, len(node.shape)))
    return apply("add", apply("max", node, 0.0), apply("mul", slope, apply("min", node, 0.0)))


def glu(x: object, dim: object = -1) -> Node:
    """The first half of an axis times the sigmoid of the second."""
    node = as_node(x)
    axis = as_integer(dim) % len(node.shape)
    half = calculate("floordiv", node.shape[axis], Num.of(2))
    shape = (*node.shape[:axis], half, *node.shape[axis + 1 :])
    first, second = (slice_axis(node, axis, start, None, 1, shape=shape) for start in (Num.of(0), half))
    return apply("mul", first, sigmoid(second))


def nan_to_num(x: object, nan: object = None, high: object = None, low: object = None) -> Node:
    """x with numbers in place of NaN and infinities."""
    finite = clamp(x, -MAX_FLOAT if low is None else low, MAX_FLOAT if high is None else high)
    return apply("where", apply("ne", x, x), 0.0 if nan is None else nan, finite)


def logaddexp(x: object, y: object) -> Node:
    """log(exp(x) + exp(y)), which cannot overflow."""
    distance = apply("abs", apply("sub", x, y))
    return apply("add", apply("max", x, y), apply("log", apply("add", 1.0, apply("exp", apply("neg", distance)))))


def xlogy(x: object, y: object) -> Node:
    """x * log(y), and 0 where x is zero."""
    return apply("where", apply("eq", x, 0.0), 0.0, apply("mul", x, apply("log", y)))


def heaviside(x: object, at_zero: object) -> Node:
    """0 below zero, 1 above zero, a value at zero."""
    return make_select(">", x, 0.0, 1.0, make_select("<", x, 0.0, 0.0, at_zero))


def logit(x: object, eps: object = None) -> Node:
    """log(x / (1 - x)); with eps, x is clipped to [eps, 1 - eps]."""
    node = as_node(x) if eps is None else clamp(x, eps, 1 - as_num(eps).value)
    return apply("log", apply("div", node, apply("sub", 1.0, node)))


def hyperbolic_lowering(operation: str) -> Callable[[object], Node]:
    """The lowering of `sinh` (`sub`) or `cosh` (`add`)."""
    return lambda x: apply("mul", 0.5, apply(operation, apply("exp", x), apply("exp", apply("neg", x))))


def logarithm(base: float, x: object) -> Node:
    """The logarithm to a base."""
    return apply("mul", 1 / math.log(base), apply("log", x))


def outer(x: object, y: object) -> Node:
    """All products of elements of two vectors."""
    return apply("mul", unsqueeze(as_node(x), 1), unsqueeze(as_node(y), 0))


def fill(x: object, value: object) -> Node:
    """A tensor of the same shape with one value everywhere."""
    return expand(as_node(value), shape=as_node(x).shape)


def linspace(start: object, end: object, steps: object, shape: object = None, **named: object) -> Node:
    """Evenly spaced numbers."""
    (n,) = require_shape(shape)
    if not n.is_literal or n.value < 2:
        raise UnsupportedPattern("linspace() with a number of steps that depends on the size")
    first, last = as_num(start).value, as_num(end).value
    return apply("add", first, apply("mul", make_index((n,), 0), (last - first) / (n.value - 1)))


def type_as(x: object, other: object) -> Node:
    """A conversion to the type of another tensor."""
    return cast(x, as_node(other).dtype)


TABLE: Mapping[str, Callable[..., object]] = {
    "sign": sign, "sgn": sign, "ceil": ceil, "trunc": trunc, "fix": trunc, "frac": lambda x: apply("sub", x, trunc(x)), "fmod": fmod,
    "softshrink": softshrink, "hardshrink": hardshrink, "celu": celu, "threshold": threshold, "prelu": prelu, "_prelu_kernel": prelu,
    "glu": glu, "nan_to_num": nan_to_num, "logaddexp": logaddexp, "xlogy": xlogy, "heaviside": heaviside, "logit": logit,
    "sinh": hyperbolic_lowering("sub"), "cosh": hyperbolic_lowering("add"), "tan": lambda x: apply("div", apply("sin", x), apply("cos", x)),
    "log2": partial(logarithm, 2.0), "log10": partial(logarithm, 10.0), "erfc": lambda x: apply("sub", 1.0, apply("erf", x)),
    "hypot": lambda x, y: apply("sqrt", apply("add", apply("mul", x, x), apply("mul", y, y))),
    "isnan": lambda x: apply("ne", x, x), "isinf": lambda x: apply("eq", apply("abs", x), math.inf),
    "isfinite": lambda x: apply("lt", apply("abs", x), math.inf), "logical_xor": lambda x, y: apply("ne", x, y),
    "__xor__": lambda x, y: apply("ne", x, y), "bitwise_xor": lambda x, y: apply("ne", x, y),
    "outer": outer, "ger": outer, "fill": fill, "linspace": linspace, "type_as": type_as,
    "empty_like": lambda x, **named: fill(x, 0.0), "positive": as_node,
}  # fmt: skip
