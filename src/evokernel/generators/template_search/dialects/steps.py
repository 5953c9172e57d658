"""Emits a tree of elementwise operations as steps with names, whatever the language of the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from evokernel.generators.template_search.graph import ELEMENTWISE, Node, Num, UnsupportedPattern

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
