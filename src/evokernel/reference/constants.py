"""Finds and replaces the integer constants that determine the sizes of a task. It works on the source and needs no torch.

These are the constants at module level. If `get_inputs` uses none of them, the literals in `get_inputs`, `get_init_inputs` and
`Model.__init__` count as well.
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

FORWARD_CLASS, FORWARD_INPUTS = "ForwardModel", "get_forward_inputs"
"""Names of the forward pass in the file of a backward task; their integers keep the keys `Model[0]` and `get_inputs[0]`."""
KEY_PREFIXES = {"get_inputs": "get_inputs", "get_init_inputs": "get_init_inputs", FORWARD_INPUTS: "get_inputs"}
MODEL_CLASSES = ("Model", FORWARD_CLASS)


class ConstantSlot(NamedTuple):
    """One integer of the source. Its key is `N` for `N = 64`, `shape[1]` for the second number of `shape = (8, 64)`, and `get_inputs[0]`
    for the first literal in that function."""

    key: str
    value: int
    node: ast.expr
    """The expression of the value."""
    set_value: Callable[[ast.expr], None]


def find_constants(tree: ast.Module) -> dict[str, int]:
    """Return every integer constant in order of appearance, without constants that are computed from others."""
    return {slot.key: slot.value for slot in find_slots(tree)}


def replace_constants(tree: ast.Module, overrides: Mapping[str, int]) -> None:
    """Replace constants by other values, in place."""
    for slot in find_slots(tree):
        if slot.key in overrides:
            slot.set_value(ast.Constant(overrides[slot.key]))
    ast.fix_missing_locations(tree)


def rewrite_constants(source: str, overrides: Mapping[str, int]) -> str:
    """Return the source with other values for some constants; everything else, comments included, stays as it is."""
    lines = [line.encode() for line in source.splitlines(keepends=True)]  # positions count bytes
    changed = [slot for slot in find_slots(ast.parse(source)) if overrides.get(slot.key, slot.value) != slot.value]
    for slot in sorted(changed, key=lambda one: (one.node.lineno, one.node.col_offset), reverse=True):
        first, last = slot.node.lineno - 1, (slot.node.end_lineno or slot.node.lineno) - 1
        before, after = lines[first][: slot.node.col_offset], lines[last][slot.node.end_col_offset :]
        lines[first : last + 1] = [before + str(overrides[slot.key]).encode() + after]
    return b"".join(lines).decode()


def constants_used_by(tree: ast.Module, function: str) -> set[str]:
    """Return the constants that a function uses, directly or through other module-level names."""
    names = names_used_by(tree, function_in_forward(tree, function))
    return {key for key in find_constants(tree) if base_name(key) in names}


def function_in_forward(tree: ast.Module, function: str) -> str:
    """Return the name under which a backward task keeps a function of the forward pass; in other tasks the name itself."""
    is_kept = function == "get_inputs" and any(isinstance(node, ast.FunctionDef) and node.name == FORWARD_INPUTS for node in tree.body)
    return FORWARD_INPUTS if is_kept else function


def names_used_by(tree: ast.Module, function: str) -> set[str]:
    """Return a function's name and the module-level names it uses, directly or through others."""
    uses: dict[str, set[str]] = {}
    for node in tree.body:
        used_names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        for name in assigned_names(node):
            uses.setdefault(name, set()).update(used_names)
    visited: set[str] = set()
    todo = [function]
    while todo:
        name = todo.pop()
        if name not in visited:
            visited.add(name)
            todo.extend(uses.get(name, ()))
    return visited


def base_name(key: str) -> str:
    """Return the name at the beginning of a constant's key."""
    return key.partition("[")[0]


def remove_assignment(source: str, name: str) -> str:
    """Return the source without the module-level assignment to a name."""
    lines = source.splitlines(keepends=True)
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.Assign | ast.AnnAssign) and name in assigned_names(node):
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines)


def assigned_names(node: ast.stmt) -> set[str]:
    """Return the names that a module-level statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def find_slots(tree: ast.Module) -> list[ConstantSlot]:
    """Return every integer in the source that may be a size."""
    module_level = list(module_level_slots(tree))
    inputs = names_used_by(tree, function_in_forward(tree, "get_inputs"))
    return module_level if any(base_name(slot.key) in inputs for slot in module_level) else [*module_level, *function_slots(tree)]


def function_slots(tree: ast.Module) -> Iterator[ConstantSlot]:
    """Yield the integers above 1 in the bodies of functions that determine sizes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in KEY_PREFIXES:
            yield from literal_slots(KEY_PREFIXES[node.name], node)
        elif isinstance(node, ast.ClassDef) and node.name in MODEL_CLASSES:
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                    yield from literal_slots("Model", part)


def literal_slots(name: str, function: ast.FunctionDef) -> Iterator[ConstantSlot]:
    """Yield the integers above 1 in a function's body, in source order."""
    integers = [
        (node.lineno, node.col_offset, node.value, node)
        for part in function.body
        for node in ast.walk(part)
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 1
    ]
    for i, (_, _, value, node) in enumerate(sorted(integers, key=lambda one: one[:2])):
        yield ConstantSlot(f"{name}[{i}]", value, node, lambda new, node=node: setattr(node, "value", getattr(new, "value", None)))  # type: ignore[misc]


def module_level_slots(tree: ast.Module) -> Iterator[ConstantSlot]:
    """Yield the integers that module-level names are assigned to."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign):
            target = node.target
        else:
            continue
        value = node.value
        if isinstance(target, ast.Name) and isinstance(value, ast.Tuple | ast.List):
            yield from tuple_slots([f"{target.id}[{i}]" for i in range(len(value.elts))], value.elts)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from tuple_slots([t.id if isinstance(t, ast.Name) else None for t in target.elts], value.elts)
        elif isinstance(target, ast.Name) and value is not None and (number := evaluate_integer(value)) is not None:
            yield ConstantSlot(target.id, number, value, lambda new, node=node: setattr(node, "value", new))  # type: ignore[misc]


def tuple_slots(keys: list[str] | list[str | None], values: list[ast.expr]) -> Iterator[ConstantSlot]:
    """Yield the constant integers among the elements of a tuple."""
    for i, key in enumerate(keys):
        number = evaluate_integer(values[i])
        if key is not None and number is not None:
            yield ConstantSlot(key, number, values[i], lambda new, i=i: values.__setitem__(i, new))  # type: ignore[misc]


def evaluate_integer(node: ast.expr) -> int | None:
    """Evaluate an expression of integer literals; None for any other expression."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = evaluate_integer(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, right = evaluate_integer(node.left), evaluate_integer(node.right)
        if left is None or right is None or (right <= 0 and not isinstance(node.op, ast.Add | ast.Sub | ast.Mult)):
            return None
        return OPERATORS[type(node.op)](left, right)
    return None
