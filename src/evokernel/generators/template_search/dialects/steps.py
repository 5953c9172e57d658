"""Emits a tree of elementwise operations as steps with names, whatever the language of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evokernel.generators.template_search.dialects.literals import SIGNS
from evokernel.generators.template_search.graph import ELEMENTWISE, Node, Num, UnsupportedPattern

LOGIC = {"and": "&", "or": "|"}
StepFormatter = Callable[[Node, list[str], str], str]
"""Returns the statement that computes a node from the texts of its arguments and stores it under a name."""


def emit_steps(
    tree: Node,
    arguments: Mapping[Node, str],
    format_constant: Callable[[Num], str],
    format_statement: StepFormatter,
    more_operators: frozenset[str] = frozenset(),
) -> tuple[list[str], str]:
    """Return the statements `t0`, `t1`, … of a tree, and the text of its result.

    `arguments` names the subtrees that are passed in; `more_operators` are supported besides elementwise ones.
    """
    statements: list[str] = []
    texts: dict[Node, str] = dict(arguments)

    def visit(node: Node) -> str:
        if node in texts:
            return texts[node]
        if node.op == "const":
            return format_constant(node.nums[0])
        if node.op not in ELEMENTWISE and node.op not in more_operators:
            raise UnsupportedPattern(f"{node.op} inside an elementwise part")
        args = [visit(argument) for argument in node.args]
        texts[node] = f"t{len(statements)}"
        statements.append(format_statement(node, args, texts[node]))
        return texts[node]

    return statements, visit(tree)


@dataclass(frozen=True)
class StepSyntax:
    """How a language writes the elementwise steps that are not infix arithmetic."""

    negation: str
    """Of a condition, as a format."""
    choice: str
    """Of two values by a condition, as a format."""
    format_cast: Callable[[Node, str], str]
    format_call: Callable[[Node, list[str]], str]
    """Any other step."""


def format_step(node: Node, args: list[str], syntax: StepSyntax) -> str:
    """One elementwise step as an expression over the texts of its arguments."""
    if node.op in SIGNS:
        return f"{args[0]} {SIGNS[node.op]} {args[1]}"
    if node.op in LOGIC:
        return f"{args[0]} {LOGIC[node.op]} {args[1]}"
    if node.op == "not":
        return syntax.negation.format(args[0])
    if node.op == "neg":
        return f"-{args[0]}"
    if node.op == "select":
        return syntax.choice.format(f"{args[0]} {node.name} {args[1]}", args[2], args[3])
    if node.op == "where":
        return syntax.choice.format(*args)
    return syntax.format_cast(node, args[0]) if node.op == "cast" else syntax.format_call(node, args)


def needs_condition(node: Node, i: int) -> bool:
    """Whether a step uses an argument as a condition."""
    return node.op in ("and", "or", "not") or (node.op == "where" and i == 0)
