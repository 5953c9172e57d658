"""Finds and replaces the integer constants that size a task. Reads text only; needs no torch.

Those are the ones the text defines at module level; where `get_inputs` uses none of them, the numbers written into it and into `Model`'s
own `__init__` instead.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}


class Slot(NamedTuple):
    """One integer in the text: `N = 64` is called `N`, the second number of `shape = (8, 64)` is `shape[1]`, the first that is written
    into a function `get_inputs[0]`."""

    key: str
    value: int
    put: Callable[[ast.expr], None]


def constants(tree: ast.Module) -> dict[str, int]:
    """Every integer constant in order of appearance; those computed from others are not listed, they follow."""
    return {slot.key: slot.value for slot in slots(tree)}


def replace(tree: ast.Module, overrides: Mapping[str, int]) -> None:
    """Puts other values in place of constants."""
    for slot in slots(tree):
        if slot.key in overrides:
            slot.put(ast.Constant(overrides[slot.key]))
    ast.fix_missing_locations(tree)


def reached(tree: ast.Module, function: str) -> set[str]:
    """The constants that a function uses, directly or through other module-level names."""
    seen = connected(tree, function)
    return {key for key in constants(tree) if owner(key) in seen}


def connected(tree: ast.Module, function: str) -> set[str]:
    """A function and the module-level names it uses, directly or through others."""
    uses: dict[str, set[str]] = {}
    for node in tree.body:
        loaded = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        for name in bound(node):
            uses.setdefault(name, set()).update(loaded)
    seen: set[str] = set()
    todo = [function]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(uses.get(name, ()))
    return seen


def owner(key: str) -> str:
    """The name in the text that a constant's key begins with."""
    return key.partition("[")[0]


def without(source: str, name: str) -> str:
    """The text without the module-level assignment to a name."""
    lines = source.splitlines(keepends=True)
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in bound(node):
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines)


def bound(node: ast.stmt) -> set[str]:
    """The names a module-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def slots(tree: ast.Module) -> list[Slot]:
    """Every place in the text that holds a constant integer which may be a size."""
    found = list(named(tree))
    inputs = connected(tree, "get_inputs")
    return found if any(owner(slot.key) in inputs for slot in found) else [*found, *written(tree)]


def written(tree: ast.Module) -> Iterator[Slot]:
    """Integers in the bodies of functions that decide sizes; 0 and 1 are none."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"):
            yield from literals(node.name, node)
        elif isinstance(node, ast.ClassDef) and node.name == "Model":
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    yield from literals(node.name, part)


def literals(name: str, function: ast.FunctionDef) -> Iterator[Slot]:
    """Integers above 1 in a function's body, in the order of the text."""
    found = [
        (node.lineno, node.col_offset, node.value, node)
        for part in function.body
        for node in ast.walk(part)
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 1
    ]
    for i, (_, _, value, node) in enumerate(sorted(found, key=lambda one: one[:2])):
        yield Slot(f"{name}[{i}]", value, lambda new, node=node: setattr(node, "value", getattr(new, "value", None)))  # type: ignore[misc]


def named(tree: ast.Module) -> Iterator[Slot]:
    """Integers under a module-level name."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        value = node.value
        if isinstance(target, ast.Name) and isinstance(value, ast.Tuple | ast.List):
            yield from elements([f"{target.id}[{i}]" for i in range(len(value.elts))], value.elts)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from elements([t.id if isinstance(t, ast.Name) else None for t in target.elts], value.elts)
        elif isinstance(target, ast.Name) and value is not None and (number := evaluate(value)) is not None:
            yield Slot(target.id, number, lambda new, node=node: setattr(node, "value", new))  # type: ignore[misc]


def elements(keys: list[str] | list[str | None], values: list[ast.expr]) -> Iterator[Slot]:
    """The constant integers among the members of a tuple."""
    for i, key in enumerate(keys):
        number = evaluate(values[i])
        if key is not None and number is not None:
            yield Slot(key, number, lambda new, i=i: values.__setitem__(i, new))  # type: ignore[misc]


def evaluate(node: ast.expr) -> int | None:
    """The value of an expression made of integer literals alone; None when it is anything else."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = evaluate(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = evaluate(node.left), evaluate(node.right)
        if left is None or right is None or (right <= 0 and not isinstance(node.op, ast.Add | ast.Sub | ast.Mult)):
            return None
        return OPERATORS[type(node.op)](left, right)
    return None
