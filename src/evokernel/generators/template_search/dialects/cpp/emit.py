"""Emits numbers and elementwise steps as C++: one `template <class T>` function for both single floats and vectors."""

from __future__ import annotations

from collections.abc import Mapping

from evokernel.generators.template_search.dialects.c_text import format_num, is_condition
from evokernel.generators.template_search.dialects.steps import StepSyntax, emit_steps, format_step, needs_condition
from evokernel.generators.template_search.graph import Node, Num


def emit_function(name: str, tree: Node, arguments: Mapping[Node, str], numbers: Mapping[Num, str] | None = None) -> str:
    """`name(T a, T b, ..., float s0, ...)` that computes `tree`; `arguments` names the subtrees that are passed in.

    Conditions have the type of a comparison of two T; a mask in memory is compared with zero when it is read.
    """
    number_names = dict(numbers or {})

    def format_constant(value: Num) -> str:
        return f"(T{{}} + float({number_names[value] if value in number_names else format_num(value)}))"

    def format_statement(node: Node, args: list[str], target: str) -> str:
        operands = [as_condition(a, t) if needs_condition(node, i) else as_number(a, t) for i, (a, t) in enumerate(zip(node.args, args))]
        return f"    const {'auto' if is_condition(node) else 'T'} {target} = {format_step(node, operands, SYNTAX)};"

    lines, result = emit_steps(tree, arguments, format_constant, format_statement)
    if tree not in arguments:
        result = as_number(tree, result)
    parameters = ", ".join([*(f"T {a}" for a in arguments.values()), *(f"float {s}" for s in number_names.values())])
    return "\n".join([f"template <class T> static inline T {name}({parameters}) {{", *lines, f"    return {result};", "}"])


def as_condition(node: Node, text: str) -> str:
    """A value as a condition: a mask from memory is a number, which is compared with zero."""
    return text if is_condition(node) else f"({text} != T{{}})"


def as_number(node: Node, text: str) -> str:
    """A value as a number: 1 where a condition holds, 0 elsewhere."""
    return f"({text} ? T{{}} + 1.0f : T{{}})" if is_condition(node) else text


def format_cast(node: Node, arg: str) -> str:
    """A conversion: kernels compute in float32 and convert when they write."""
    if node.name == "bool":
        return f"{arg} != T{{}} ? T{{}} + 1.0f : T{{}}"
    if "int" in node.name:
        return arg if "int" in node.args[0].dtype or node.args[0].dtype == "bool" else f"trunc_({arg})"
    return f"{node.name}_({arg})" if node.name in ("float16", "bfloat16") else arg


SYNTAX = StepSyntax("!{0}", "{0} ? {1} : {2}", format_cast, lambda node, args: f"{node.op}_({', '.join(args)})")
