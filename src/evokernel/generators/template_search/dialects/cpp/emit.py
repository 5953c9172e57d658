"""Emits numbers and elementwise steps as C++: one `template <class T>` function for both single floats and vectors."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.template_search.dialects.literals import SIGNS, format_number
from evokernel.generators.template_search.dialects.steps import emit_steps
from evokernel.generators.template_search.graph import Node, Num

LOGIC = {"and": "&", "or": "|"}
NUMBERS = {
    "extent": "in_{0}_shape[{1}]",
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "{0} * {1}", "floordiv": "({0} / ({1}))", "div": "(double({0}) / double({1}))",
    "sqrt": "std::sqrt(double({0}))", "rsqrt": "(1.0 / std::sqrt(double({0})))", "reciprocal": "(1.0 / double({0}))",
    "log": "std::log(double({0}))",
}  # fmt: skip


def format_num(num: Num) -> str:
    """A number as a C++ expression over the kernel's arguments."""
    return format_number(num, NUMBERS, format_literal)


def format_literal(value: float, integer: bool = False) -> str:
    """A C++ literal."""
    if integer:
        return str(int(value))
    if value - value != 0:
        return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def emit_function(name: str, tree: Node, arguments: Mapping[Node, str], numbers: Mapping[Num, str] | None = None) -> str:
    """`name(T a, T b, ..., float s0, ...)` that computes `tree`; `arguments` names the subtrees that are passed in.

    Conditions have the type of a comparison of two T; a mask in memory is compared with zero when it is read.
    """
    number_names = dict(numbers or {})

    def format_constant(value: Num) -> str:
        return f"(T{{}} + float({number_names[value] if value in number_names else format_num(value)}))"

    def format_statement(node: Node, args: list[str], target: str) -> str:
        operands = [
            as_condition(a, t) if is_condition_argument(node, i) else as_number(a, t) for i, (a, t) in enumerate(zip(node.args, args))
        ]
        return f"    const {'auto' if is_condition(node) else 'T'} {target} = {format_step(node, operands)};"

    lines, result = emit_steps(tree, arguments, format_constant, format_statement)
    if tree not in arguments:
        result = as_number(tree, result)
    parameters = ", ".join([*(f"T {a}" for a in arguments.values()), *(f"float {s}" for s in number_names.values())])
    return "\n".join([f"template <class T> static inline T {name}({parameters}) {{", *lines, f"    return {result};", "}"])


def is_condition_argument(node: Node, i: int) -> bool:
    """Whether an argument is used as a condition."""
    return node.op in ("and", "or", "not") or (node.op == "where" and i == 0)


def as_condition(node: Node, text: str) -> str:
    """A value as a condition: a mask from memory is a number, which is compared with zero."""
    return text if is_condition(node) else f"({text} != T{{}})"


def as_number(node: Node, text: str) -> str:
    """A value as a number: 1 where a condition holds, 0 elsewhere."""
    return f"({text} ? T{{}} + 1.0f : T{{}})" if is_condition(node) else text


def is_condition(node: Node) -> bool:
    """Whether the text of a value is the result of a comparison, not a number."""
    return node.dtype == "bool" and node.op not in ("leaf", "cast")


def format_step(node: Node, args: list[str]) -> str:
    """One elementwise step as a C++ expression."""
    if node.op in SIGNS:
        return f"{args[0]} {SIGNS[node.op]} {args[1]}"
    if node.op in LOGIC:
        return f"{args[0]} {LOGIC[node.op]} {args[1]}"
    if node.op == "not":
        return f"!{args[0]}"
    if node.op == "neg":
        return f"-{args[0]}"
    if node.op == "select":
        return f"{args[0]} {node.name} {args[1]} ? {args[2]} : {args[3]}"
    if node.op == "where":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if node.op == "cast":
        if node.name == "bool":
            return f"{args[0]} != T{{}} ? T{{}} + 1.0f : T{{}}"
        if "int" in node.name:
            return args[0] if "int" in node.args[0].dtype or node.args[0].dtype == "bool" else f"trunc_({args[0]})"
        return f"{node.name}_({args[0]})" if node.name in ("float16", "bfloat16") else args[0]
    return f"{node.op}_({', '.join(args)})"
