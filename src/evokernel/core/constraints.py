"""Constraints on tunables: arithmetic on names and numbers, evaluated node by node. The text is untrusted and never executed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

Number = int | float
MAX_CHARS, MAX_MAGNITUDE = 200, 1e18
BINARY: dict[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: dict[str, Callable[..., Number]] = {"min": min, "max": max}
GRAMMAR = "use names of tunables and constants, numbers, + - * / // %, comparisons, and, or, not, min, max"


class ConstraintError(Exception):
    """A constraint that cannot be parsed; the message names the fix."""


@dataclass(frozen=True)
class Constraint:
    """A parsed constraint."""

    text: str
    names: frozenset[str]
    tree: ast.expr

    def is_met(self, values: Mapping[str, Number]) -> bool:
        """Whether the values meet the constraint; a division by zero does not."""
        try:
            return bool(evaluate(self.tree, values))
        except (ZeroDivisionError, OverflowError):
            return False


def parse_constraint(text: str, names: Collection[str]) -> Constraint:
    """Parse a constraint on these names. Raises ConstraintError with the fix if it contains anything else."""
    if len(text) > MAX_CHARS:
        raise ConstraintError(f"the constraint has more than {MAX_CHARS} characters: split it into several")
    try:
        tree = ast.parse(text.replace("&&", " and ").replace("||", " or ").strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConstraintError(f"this is not an expression: {GRAMMAR}, such as `TILE * COLS <= 49152`") from error
    used: set[str] = set()
    check_node(tree, frozenset(names), used)
    return Constraint(text, frozenset(used), tree)


def check_node(node: ast.AST, names: frozenset[str], used: set[str]) -> None:
    """Raise ConstraintError for a node outside the grammar; collect the names."""
    match node:
        case ast.Name(id=name):
            if name not in names:
                listed = ", ".join(sorted(names)[:12]) or "none"
                raise ConstraintError(f"`{name}` is no tunable and no constant that is defined by a number; known names: {listed}")
            used.add(name)
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool) and abs(number) <= MAX_MAGNITUDE:
            pass
        case ast.BinOp(op=op) if type(op) in BINARY:
            check_node(node.left, names, used)
            check_node(node.right, names, used)
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            check_node(node.operand, names, used)
        case ast.BoolOp(values=operands):
            for operand in operands:
                check_node(operand, names, used)
        case ast.Compare(ops=ops) if all(type(op) in COMPARISONS for op in ops):
            for operand in (node.left, *node.comparators):
                check_node(operand, names, used)
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]) if function in FUNCTIONS and len(arguments) > 1:
            for operand in arguments:
                check_node(operand, names, used)
        case _:
            raise ConstraintError(f"`{ast.unparse(node)[:60]}` is not allowed in a constraint: {GRAMMAR}")


def evaluate(node: ast.expr, values: Mapping[str, Number]) -> Number:
    """Evaluate a checked node."""
    match node:
        case ast.Name(id=name):
            return values[name]
        case ast.Constant(value=value):
            return value  # type: ignore[return-value]  # `check_node` admits numbers only
        case ast.BinOp(left=left, op=op, right=right):
            return BINARY[type(op)](evaluate(left, values), evaluate(right, values))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not evaluate(operand, values)
        case ast.UnaryOp(operand=operand):
            return -evaluate(operand, values)
        case ast.BoolOp(op=ast.And(), values=operands):
            return all(evaluate(operand, values) for operand in operands)
        case ast.BoolOp(values=operands):
            return any(evaluate(operand, values) for operand in operands)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            numbers = [evaluate(operand, values) for operand in (left, *comparators)]
            return all(COMPARISONS[type(op)](a, b) for op, a, b in zip(ops, numbers, numbers[1:]))
        case ast.Call(func=ast.Name(id=function), args=arguments):
            return FUNCTIONS[function](*(evaluate(argument, values) for argument in arguments))
    raise TypeError(f"unchecked node {type(node).__name__}")
