"""Lowerings of elementwise operators: arithmetic, activations, comparisons, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from evokernel.generators.template_search.graph import Node, UnsupportedPattern, apply, as_node, as_num, make_select

SAME_BEYOND = 17.0
"""Above this number, log(1 + exp(x)) equals x in float32."""


def sigmoid(x: object) -> Node:
    """1 / (1 + exp(-x))."""
    return apply("div", 1.0, apply("add", 1.0, apply("exp", apply("neg", x))))


def log_one_plus_exp(x: object) -> Node:
    """log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which cannot overflow."""
    return apply("add", apply("max", x, 0.0), apply("log", apply("add", 1.0, apply("exp", apply("neg", apply("abs", x))))))


def softplus(x: object, beta: object = 1.0, threshold: object = 20.0) -> Node:
    """log(1 + exp(beta x)) / beta; x itself above the threshold, which makes a difference only if the threshold is low."""
    scaled_x = as_node(x) if as_num(beta).value == 1 else apply("mul", beta, x)
    smooth = log_one_plus_exp(scaled_x)
    result = smooth if as_num(beta).value == 1 else apply("div", smooth, beta)
    return result if as_num(threshold).value >= SAME_BEYOND else make_select(">", scaled_x, threshold, x, result)


def gelu(x: object, approximate: object = "none") -> Node:
    """GELU, exact or with the tanh approximation."""
    half = apply("mul", 0.5, x)
    if approximate == "tanh":
        cubic = apply("mul", apply("mul", 0.044715, x), apply("mul", x, x))
        return apply("mul", half, apply("add", 1.0, apply("tanh", apply("mul", math.sqrt(2 / math.pi), apply("add", x, cubic)))))
    return apply("mul", half, apply("add", 1.0, apply("erf", apply("mul", math.sqrt(0.5), x))))


def clamp(x: object, low: object = None, high: object = None) -> Node:
    """x clipped to a range."""
    at_least_low = x if low is None else apply("max", x, low)
    return as_node(at_least_low) if high is None else apply("min", at_least_low, high)


def leaky_relu(x: object, slope: object = 0.01) -> Node:
    """max(x, 0) + slope * min(x, 0)."""
    return apply("add", apply("max", x, 0.0), apply("mul", slope, apply("min", x, 0.0)))


def elu(x: object, alpha: object = 1.0, scale: object = 1.0, input_scale: object = 1.0) -> Node:
    """max(x, 0) + alpha * (exp(min(x, 0)) - 1)."""
    if as_num(scale).value != 1 or as_num(input_scale).value != 1:
        raise UnsupportedPattern("a scaled elu")
    return apply("add", apply("max", x, 0.0), apply("mul", alpha, apply("sub", apply("exp", apply("min", x, 0.0)), 1.0)))


def selu(x: object) -> Node:
    """The self-normalising ELU."""
    return apply("mul", 1.0507009873554805, elu(x, 1.6732632423543772))


def hardsigmoid(x: object) -> Node:
    """clip(x / 6 + 1 / 2, 0, 1)."""
    return clamp(apply("add", apply("mul", 1 / 6, x), 0.5), 0.0, 1.0)


def power(x: object, exponent: object) -> Node:
    """A power, as multiplications, a root or a reciprocal if the exponent allows it."""
    if isinstance(exponent, Node):
        if isinstance(x, Node) or as_num(x).value <= 0 or not as_num(x).is_literal:
            return apply("pow", x, exponent)
        return apply("exp", apply("mul", math.log(as_num(x).value), exponent))
    p = as_num(exponent).value
    simple_powers: dict[float, Callable[[], Node]] = {
        0.5: lambda: apply("sqrt", x),
        -0.5: lambda: rsqrt(x),
        -1.0: lambda: apply("div", 1.0, x),
        1.0: lambda: as_node(x),
        2.0: lambda: apply("mul", x, x),
        3.0: lambda: apply("mul", apply("mul", x, x), x),
        4.0: lambda: apply("mul", apply("mul", x, x), apply("mul", x, x)),
    }
    return simple_powers[p]() if p in simple_powers else apply("pow", x, exponent)


def rsqrt(x: object) -> Node:
    """1 / sqrt(x)."""
    return apply("div", 1.0, apply("sqrt", x))


def add(x: object, y: object, alpha: object = 1) -> Node:
    """x + alpha * y."""
    return apply("add", x, y if as_num(alpha).value == 1 else apply("mul", alpha, y))


def sub(x: object, y: object, alpha: object = 1) -> Node:
    """x - alpha * y."""
    return apply("sub", x, y if as_num(alpha).value == 1 else apply("mul", alpha, y))


def div(x: object, y: object, rounding_mode: object = None) -> Node:
    """A quotient, rounded down with rounding_mode `floor`."""
    if rounding_mode not in (None, "floor"):
        raise UnsupportedPattern("a quotient rounded towards zero")
    return apply("div", x, y) if rounding_mode is None else floor_divide(x, y)


def floor_divide(x: object, y: object) -> Node:
    """A quotient rounded down; 0.5 is added to an integer dividend first, so that rounding errors have no effect.

    That is correct only for integer divisors above zero: for others nothing is added.
    """
    node, by = as_node(x), as_node(y)
    safe = is_integer_valued(node) and is_integer_valued(by) and by.op == "const" and min(by.nums[0].values) > 0
    return apply("floor", apply("div", apply("add", node, 0.5) if safe else node, by))


def remainder(x: object, y: object) -> Node:
    """The remainder of a division, with the divisor's sign."""
    return apply("sub", x, apply("mul", floor_divide(x, y), y))


def is_integer_valued(node: Node) -> bool:
    """Whether the steps that compute a value make it an integer."""
    if node.op == "const":
        return all(float(v).is_integer() for v in node.nums[0].values)
    if node.op in ("index", "floor", "round") or "int" in node.dtype:
        return True
    return node.op in ("add", "sub", "mul", "neg", "abs", "max", "min", "reshape") and all(is_integer_valued(a) for a in node.args)


def cast(x: object, dtype: object, *settings: object, **named: object) -> Node:
    """A conversion; kernels compute in float32 for every floating-point type."""
    node = as_node(x)
    target_dtype = str(dtype)
    if target_dtype == node.dtype or (target_dtype == "float64" and node.dtype == "float32"):
        return node
    if target_dtype not in ("float32", "float16", "bfloat16", "int32", "int64", "int8", "uint8", "bool"):
        raise UnsupportedPattern(f"a conversion to {target_dtype}")
    return replace(apply("cast", node), name=target_dtype, dtype=target_dtype)


def where(condition: object, yes: object, no: object) -> Node:
    """`yes` where the condition holds, `no` elsewhere."""
    return apply("where", condition, yes, no)


def masked_fill(x: object, mask: object, value: object) -> Node:
    """x with a number wherever the mask holds."""
    return apply("where", mask, value, x)


def pass_through(x: object, *settings: object, **named: object) -> Node:
    """The argument unchanged: the operator affects only memory or training."""
    return as_node(x)


def bitwise_lowering(op: str) -> Callable[..., Node]:
    """The lowering of a bitwise operator on booleans, for which it equals the logical operator."""

    def lower(*values: object, dtypes: tuple[str, ...] = ()) -> Node:
        if dtypes != ("bool",):
            raise UnsupportedPattern("bitwise operations on integers")
        return apply(op, *values)

    return lower


def comparison_lowering(op: str) -> Callable[..., Node]:
    """The lowering of a comparison."""
    return lambda x, y: apply(op, x, y)


SIMPLE = {name: name for name in ("exp", "log", "tanh", "erf", "sqrt", "abs", "neg", "floor", "round", "sin", "cos")}
PAIRS = {"maximum": "max", "minimum": "min", "mul": "mul", "multiply": "mul", "logical_and": "and", "logical_or": "or"}
BITS = {"bitwise_and": "and", "bitwise_or": "or", "__and__": "and", "__or__": "or", "bitwise_not": "not"}

TABLE: Mapping[str, Callable[..., object]] = {
    **{name: (lambda x, op=op: apply(op, x)) for name, op in SIMPLE.items()},
    **{name: (lambda x, y, op=op: apply(op, x, y)) for name, op in PAIRS.items()},
    **{name: bitwise_lowering(op) for name, op in BITS.items()},
    **{name: comparison_lowering(name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
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
    **dict.fromkeys(("contiguous", "clone", "detach", "dropout", "alias", "lift_fresh_copy"), pass_through),
}  # fmt: skip
