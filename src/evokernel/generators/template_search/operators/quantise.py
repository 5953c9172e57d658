"""Lowerings of operators on the exponents of floats, which the scales of quantised tensors use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import Node, apply, as_node


def frexp(x: object) -> tuple[Node, Node]:
    """The mantissa, from 1/2 to 1, and the exponent of two."""
    exponent = apply("exponent", as_node(x))
    return apply("div", x, apply("power2", exponent)), exponent


def ldexp(x: object, exponent: object) -> Node:
    """x times a power of two."""
    return apply("mul", x, apply("power2", exponent))


TABLE: Mapping[str, Callable[..., object]] = {
    "frexp": frexp,
    "ldexp": ldexp,
    "exp2": lambda x: apply("exp", apply("mul", 0.6931471805599453, x)),
}
