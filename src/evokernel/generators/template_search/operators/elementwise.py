"""Elementwise operators: arithmetic, activations, comparisons, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from evokernel.generators.template_search.graph import Node, NoSketch, apply, as_node, number, select

SAME_BEYOND = 17.0
"""From here on log(1 + exp(x)) is x in float32."""


def sigmoid(x: object) -> Node:
    """1 / (1 + exp(-x))."""
    return apply("div", 1.0, apply("add", 1.0, apply("exp", apply("neg", x))))


def log_one_plus_exp(x: object) -> Node:
    """max(x, 0) + log(1 + exp(-|x|)): cannot overflow."""
    return apply("add", apply("max", x, 0.0), apply("log", apply("add", 1.0, apply("exp", apply("neg", apply("abs", x))))))


def softplus(x: object, beta: object = 1.0, threshold: object = 20.0) -> Node:
    """log(1 + exp(beta x)) / beta; beyond a threshold x itself, which only low ones make a difference to."""
    scaled = as_node(x) if number(beta).value == 1 else apply("mul", beta, x)
    smooth = log_one_plus_exp(scaled)
    found = smooth if number(beta).value == 1 else apply("div", smooth, beta)
    return found if number(threshold).value >= SAME_BEYOND else select(">", scaled, threshold, x, found)


def gelu(x: object, approximate: object = "none") -> Node:
    """Both forms of GELU."""
    half = apply("mul", 0.5, x)
    if approximate == "tanh":
        cubic = apply("mul", apply("mul", 0.044715, x), apply("mul", x, x))
        return apply("mul", half, apply("add", 1.0, apply("tanh", apply("mul", math.sqrt(2 / math.pi), apply("add", x, cubic)))))
    return apply("mul", half, apply("add", 1.0, apply("erf", apply("mul", math.sqrt(0.5), x))))


def clamp(x: object, low: object = None, high: object = None) -> Node:
    """Clips to a range."""
    raised = x if low is None else apply("max", x, low)
    return as_node(raised) if high is None else apply("min", raised, high)


def leaky_relu(x: object, slope: object = 0.01) -> Node:
    """max(x, 0) + slope * min(x, 0)."""
    return apply("add", apply("max", x, 0.0), apply("mul", slope, apply("min", x, 0.0)))


def elu(x: object, alpha: object = 1.0, scale: object = 1.0, input_scale: object = 1.0) -> Node:
    """max(x, 0) + alpha * (exp(min(x, 0)) - 1)."""
    if number(scale).value != 1 or number(input_scale).value != 1:
        raise NoSketch("a scaled elu")
    return apply("add", apply("max", x, 0.0), apply("mul", alpha, apply("sub", apply("exp", apply("min", x, 0.0)), 1.0)))


def selu(x: object) -> Node:
    """The self-normalising ELU."""
    return apply("mul", 1.0507009873554805, elu(x, 1.6732632423543772))


def hardsigmoid(x: object) -> Node:
    """clip(x / 6 + 1 / 2, 0, 1)."""
    return clamp(apply("add", apply("mul", 1 / 6, x), 0.5), 0.0, 1.0)


def power(x: object, exponent: object) -> Node:
    """Powers that unfold into multiplications, roots and reciprocals, and others."""
    if isinstance(exponent, Node):
        if isinstance(x, Node) or number(x).value <= 0 or not number(x).is_literal:
            return apply("pow", x, exponent)
        return apply("exp", apply("mul", math.log(number(x).value), exponent))
    p = number(exponent).value
    unfolded: dict[float, Callable[[], Node]] = {
        0.5: lambda: apply("sqrt", x),
        -0.5: lambda: rsqrt(x),
        -1.0: lambda: apply("div", 1.0, x),
        1.0: lambda: as_node(x),
        2.0: lambda: apply("mul", x, x),
        3.0: lambda: apply("mul", apply("mul", x, x), x),
        4.0: lambda: apply("mul", apply("mul", x, x), apply("mul", x, x)),
    }
    return unfolded[p]() if p in unfolded else apply("pow", x, exponent)


def rsqrt(x: object) -> Node:
    """1 / sqrt(x)."""
    return apply("div", 1.0, apply("sqrt", x))


def add(x: object, y: object, alpha: object = 1) -> Node:
    """x + alpha * y."""
    return apply("add", x, y if number(alpha).value == 1 else apply("mul", alpha, y))


def sub(x: object, y: object, alpha: object = 1) -> Node:
    """x - alpha * y."""
    return apply("sub", x, y if number(alpha).value == 1 else apply("mul", alpha, y))


def div(x: object, y: object, rounding_mode: object = None) -> Node:
    """A quotient, rounded down where asked for."""
    if rounding_mode not in (None, "floor"):
        raise NoSketch("a quotient rounded towards zero")
    return apply("div", x, y) if rounding_mode is None else floor_divide(x, y)


def floor_divide(x: object, y: object) -> Node:
    """A quotient rounded down; half of one is added to whole numbers first, so that rounding errors do not count.

    That is right for divisors above zero alone: for others nothing is added.
    """
    node, by = as_node(x), as_node(y)
    safe = is_whole(node) and is_whole(by) and by.op == "const" and min(by.nums[0].values) > 0
    return apply("floor", apply("div", apply("add", node, 0.5) if safe else node, by))


def remainder(x: object, y: object) -> Node:
    """What is left after dividing, with the divisor's sign."""
    return apply("sub", x, apply("mul", floor_divide(x, y), y))


def is_whole(node: Node) -> bool:
    """Whether a value is an integer by how it comes about."""
    if node.op == "const":
        return all(float(v).is_integer() for v in node.nums[0].values)
    if node.op in ("index", "floor", "round") or "int" in node.dtype:
        return True
    return node.op in ("add", "sub", "mul", "neg", "abs", "max", "min", "reshape") and all(is_whole(a) for a in node.args)


def cast(x: object, dtype: object, *settings: object, **named: object) -> Node:
    """A conversion; between floats it changes nothing the kernels compute with, which is float32."""
    node = as_node(x)
    wanted = str(dtype)
    if wanted == node.dtype:
        return node
    if wanted not in ("float32", "float16", "bfloat16", "int32", "int64", "int8", "uint8", "bool"):
        raise NoSketch(f"a conversion to {wanted}")
    return replace(apply("cast", node), name=wanted, dtype=wanted)


def where(condition: object, yes: object, no: object) -> Node:
    """One or the other."""
    return apply("where", condition, yes, no)


def masked_fill(x: object, mask: object, value: object) -> Node:
    """A number wherever the mask holds."""
    return apply("where", mask, value, x)


def unchanged(x: object, *settings: object, **named: object) -> Node:
    """What concerns memory or training only."""
    return as_node(x)


def bitwise(op: str) -> Callable[..., Node]:
    """Truth values joined or turned round, which for them is the same bit by bit."""

    def call(*values: object, dtypes: tuple[str, ...] = ()) -> Node:
        if dtypes != ("bool",):
            raise NoSketch("bits of whole numbers")
        return apply(op, *values)

    return call


def compared(op: str) -> Callable[..., Node]:
    """A comparison."""
    return lambda x, y: apply(op, x, y)


SIMPLE = {name: name for name in ("exp", "log", "tanh", "erf", "sqrt", "abs", "neg", "floor", "round", "sin", "cos")}
PAIRS = {"maximum": "max", "minimum": "min", "mul": "mul", "multiply": "mul", "logical_and": "and", "logical_or": "or"}
BITS = {"bitwise_and": "and", "bitwise_or": "or", "__and__": "and", "__or__": "or", "bitwise_not": "not"}

TABLE: Mapping[str, Callable[..., object]] = {
    **{name: (lambda x, op=op: apply(op, x)) for name, op in SIMPLE.items()},
    **{name: (lambda x, y, op=op: apply(op, x, y)) for name, op in PAIRS.items()},
    **{name: bitwise(op) for name, op in BITS.items()},
    **{name: compared(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    "floor_divide": floor_divide, "remainder": remainder,
    "logical_not": lambda x: apply("not", x),
    "max.other": lambda x, y: apply("max", x, y), "min.other": lambda x, y: apply("min", x, y),
    "add": add, "sub": sub, "div": div, "rsub": lambda x, y, alpha=1: sub(y, x, alpha),
    "sigmoid": sigmoid, "softplus": softplus, "gelu": gelu, "clamp": clamp, "clamp_min": lambda x, low: clamp(x, low),
    "clamp_max": lambda x, high: clamp(x, None, high), "leaky_relu": leaky_relu, "elu": elu, "selu": selu,
    "hardsigmoid": hardsigmoid, "pow": power, "rsqrt": rsqrt,
    "relu": lambda x: apply("max", x, 0.0), "relu6": lambda x: clamp(x, 0.0, 6.0),
    "hardtanh": lambda x, low=-1.0, high=1.0: clamp(x, low, high),
    "silu": lambda x: apply("mul", x, sigmoid(x)),
    "mish": lambda x: apply("mul", x, apply("tanh", log_one_plus_exp(x))),
    "hardswish": lambda x: apply("mul", x, hardsigmoid(x)),
    "softsign": lambda x: apply("div", x, apply("add", 1.0, apply("abs", x))),
    "log_sigmoid": lambda x: apply("neg", log_one_plus_exp(apply("neg", x))),
    "square": lambda x: apply("mul", x, x), "reciprocal": lambda x: apply("div", 1.0, x),
    "log1p": lambda x: apply("log", apply("add", 1.0, x)), "expm1": lambda x: apply("sub", apply("exp", x), 1.0),
    "addcmul": lambda x, a, b, value=1.0: apply("add", x, apply("mul", value, apply("mul", a, b))),
    "addcdiv": lambda x, a, b, value=1.0: apply("add", x, apply("mul", value, apply("div", a, b))),
    "lerp": lambda x, y, weight: apply("add", x, apply("mul", weight, apply("sub", y, x))),
    "to": cast, "to.device": lambda x, device, *settings: cast(x, *settings), "_to_copy": cast, "where": where, "masked_fill": masked_fill,
    **dict.fromkeys(("contiguous", "clone", "detach", "dropout", "alias", "lift_fresh_copy"), unchanged),
}  # fmt: skip
