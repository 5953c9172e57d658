"""Elementwise parts of a tree as C: one `template <class T>` function that serves single floats and vectors alike."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.sweep.graph import ELEMENTWISE, Node, NoSketch, Num

SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


NUMBERS = {
    "neg": "(-{0})", "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "floordiv": "({0} / {1})", "mod": "({0} % {1})",
    "div": "(double({0}) / double({1}))", "pow": "std::pow(double({0}), double({1}))", "sqrt": "std::sqrt(double({0}))",
    "rsqrt": "1.0 / std::sqrt(double({0}))", "reciprocal": "1.0 / ({0})", "int": "int64_t({0})", "float": "double({0})",
}  # fmt: skip


def number(num: Num) -> str:
    """A number as a C expression."""
    if num.op in ("literal", "scalar"):
        return num.name
    if num.op == "extent":
        return f"{num.name}_shape[{num.axis}]"
    return NUMBERS[num.op].format(*(number(a) for a in num.args))


def function(name: str, tree: Node, arguments: Mapping[Node, str], constants: str = "") -> str:
    """`name(T a, T b, ...)` that computes `tree`; `arguments` names the subtrees that are passed in, `constants` the scalars it needs."""
    lines: list[str] = []
    known: dict[Node, str] = dict(arguments)

    def visit(node: Node) -> str:
        if node in known:
            return known[node]
        if node.op == "const":
            known[node] = f"(T{{}} + float({number(node.nums[0])}))"
            return known[node]
        if node.op not in ELEMENTWISE:
            raise NoSketch(f"{node.op} inside an elementwise part")
        text = step(node, [visit(a) for a in node.args])
        known[node] = f"t{len(lines)}"
        lines.append(f"    const T {known[node]} = {text};")
        return known[node]

    result = visit(tree)
    takes = ", ".join(f"T {a}" for a in arguments.values()) + constants
    return "\n".join([f"template <class T> static inline T {name}({takes}) {{", *lines, f"    return {result};", "}"])


def step(node: Node, args: list[str]) -> str:
    """One elementwise step."""
    if node.op in SIGNS:
        return f"{args[0]} {SIGNS[node.op]} {args[1]}"
    if node.op == "neg":
        return f"-{args[0]}"
    if node.op == "select":
        return f"{args[0]} {node.name} {args[1]} ? {args[2]} : {args[3]}"
    return f"{node.op}_({', '.join(args)})"
