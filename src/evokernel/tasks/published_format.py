"""Files as they are published: reference and solution in one, of which only the reference is the task."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from evokernel.core.errors import UserError

SOLUTION = "ModelNew"
REFERENCE = ("Model", "get_inputs", "get_init_inputs", "SIZES", "NONFINITE")


def reference_part(source: str, path: str) -> str:
    """The text without its solution and what only that needs; a text without a solution as it is."""
    if SOLUTION not in source:
        return source
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return source  # whoever reads it says so
    defined = {name for node in body for name in names(node)}
    if SOLUTION not in defined:
        return source
    if REFERENCE[0] not in defined:
        mend = f"judge it with `evokernel verify {path} --task REFERENCE.py`"
        raise UserError(f"task file {path}: it defines {SOLUTION}, which is a kernel, and no Model, which would be its task; {mend}")
    lines = source.splitlines(keepends=True)
    for node in reversed(left_out(body)):
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        del lines[first - 1 : node.end_lineno]
    return "".join(lines)


def left_out(body: list[ast.stmt]) -> list[ast.stmt]:
    """What the reference does not need: neither it nor anything it needs uses a name that is defined there."""
    needed, kept = set(REFERENCE), set[int]()
    while True:
        more = [index for index, node in enumerate(body) if index not in kept and needed & {*names(node)}]
        if not more:
            return [node for index, node in enumerate(body) if index not in kept and not is_plain_import(node)]
        for index in more:
            kept.add(index)
            needed |= {one.id for one in ast.walk(body[index]) if isinstance(one, ast.Name)}


def names(node: ast.stmt) -> Iterator[str]:
    """What a statement of a module defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    else:
        yield from (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))


def is_plain_import(node: ast.stmt) -> bool:
    """Of PyTorch itself, say; what compiles extensions is the solution's."""
    if isinstance(node, ast.ImportFrom):
        return node.module is not None and not node.module.endswith("cpp_extension")
    return isinstance(node, ast.Import) and not any(alias.name.endswith("cpp_extension") for alias in node.names)
