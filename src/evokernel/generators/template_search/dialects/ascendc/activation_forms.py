"""Activations in forms that take fewer vector instructions; the values differ by less than a millionth."""

from __future__ import annotations

from dataclasses import replace

from evokernel.generators.template_search.graph import Node, Num, make_const, walk
from evokernel.generators.template_search.patterns import KernelPattern

CUBIC, SCALE = 0.044715, 0.7978845608028654
"""Constants of the GELU with tanh: x / 2 (1 + tanh(SCALE (x + CUBIC x^3)))."""
ERF_SLOPE = 0.3275911 * 0.7071067811865476
ERF_TERMS = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""Abramowitz and Stegun, 7.1.26: erf(z) = 1 - t (t (t (t (t c0 + c1) + c2) + c3) + c4) exp(-z^2), t = 1 / (1 + 0.3275911 z), for z > 0."""


def use_short_forms(pattern: KernelPattern) -> KernelPattern:
    """The pattern with short forms of its activations."""
    nodes = tuple(rewrite_tree(node) for node in pattern.main_nodes)
    return replace(pattern, root=rewrite_tree(pattern.root), main_nodes=nodes)


def rewrite_tree(root: Node) -> Node:
    """The value with a short form in place of every GELU; inner ones first."""
    rebuilt: dict[Node, Node] = {}
    for node in walk(root):
        args = tuple(rebuilt[a] for a in node.args)
        now = node if args == node.args else replace(node, args=args)
        by_tanh, by_erf = find_gelu(now, "tanh"), find_gelu(now, "erf")
        rebuilt[node] = gelu_by_tanh(now, by_tanh) if by_tanh else gelu_by_erf(now, by_erf) if by_erf else now
    return rebuilt[root]


def find_gelu(node: Node, function: str) -> Node | None:
    """The argument x of 0.5 x (1 + function(... x ...)); None for other steps."""
    if node.op != "mul":
        return None
    half, bell = node.args
    if half.op != "mul" or bell.op != "add" or not is_number(half.args[0], 0.5) or not is_number(bell.args[0], 1.0):
        return None
    x, inner = half.args[1], bell.args[1]
    if inner.op != function or inner.args[0].op != "mul":
        return None
    scale, argument = inner.args[0].args
    if function == "erf":
        return x if is_number(scale, 0.7071067811865476) and argument == x else None
    return x if is_number(scale, SCALE) and is_cubic(argument, x) else None


def is_cubic(node: Node, x: Node) -> bool:
    """Whether a node is x + CUBIC x^3."""
    if node.op != "add" or node.args[0] != x or node.args[1].op != "mul":
        return False
    first, square = node.args[1].args
    return first.op == "mul" and is_number(first.args[0], CUBIC) and first.args[1] == x and square.op == "mul" and square.args == (x, x)


def is_number(node: Node, value: float) -> bool:
    """Whether a node is this constant."""
    return node.op == "const" and node.nums[0].is_literal and abs(node.nums[0].value - value) < 1e-9


def gelu_by_tanh(like: Node, x: Node) -> Node:
    """x / (1 + exp(-2 u)), u = SCALE (x + CUBIC x^3)."""
    u = step(like, "mul", x, step(like, "add", number(-2 * SCALE), step(like, "mul", number(-2 * SCALE * CUBIC), step(like, "mul", x, x))))
    return step(like, "div", x, step(like, "add", number(1.0), step(like, "exp", u)))


def gelu_by_erf(like: Node, x: Node) -> Node:
    """max(x, 0) - |x| / 2 (1 - erf(|x| / sqrt(2)))."""
    size = step(like, "abs", x)
    t = step(like, "div", number(1.0), step(like, "add", number(1.0), step(like, "mul", number(ERF_SLOPE), size)))
    total = step(like, "mul", number(0.5 * ERF_TERMS[0]), t)
    for term in ERF_TERMS[1:]:
        total = step(like, "mul", step(like, "add", total, number(0.5 * term)), t)
    bell = step(like, "exp", step(like, "mul", number(-0.5), step(like, "mul", x, x)))
    return step(like, "sub", step(like, "max", x, number(0.0)), step(like, "mul", step(like, "mul", total, bell), size))


def step(like: Node, op: str, *args: Node) -> Node:
    """An elementwise step with the shape of another one."""
    return Node(op, args, like.shape)


def number(value: float) -> Node:
    """A constant."""
    return make_const(Num.of(value))
