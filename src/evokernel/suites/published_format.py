"""Published files that contain both a reference and a solution: extracts the reference."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from evokernel.core.errors import UserError

SOLUTION = "ModelNew"
REFERENCE = ("Model", "get_inputs", "get_init_inputs", "SIZES", "NONFINITE")


def extract_reference(source: str, path: str) -> str:
    """Return the source without its solution and the code that only the solution needs."""
    if SOLUTION not in source:
        return source
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return source  # the caller reports the syntax error
    definitions = {name for node in body for name in defined_names(node)}
    if SOLUTION not in definitions:
        return source
    if REFERENCE[0] not in definitions:
        fix = f"Verify it with `evokernel verify {path} --task REFERENCE.py`."
        raise UserError(f"task file {path} defines a kernel ({SOLUTION}) but no task (Model). {fix}")
    lines = source.splitlines(keepends=True)
    for node in reversed(find_unneeded(body)):
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        del lines[first - 1 : node.end_lineno]
    return "".join(lines)


def find_unneeded(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that the reference does not use, directly or through other names."""
    needed_names, needed_indices = set(REFERENCE), set[int]()
    while True:
        more = [index for index, node in enumerate(body) if index not in needed_indices and needed_names & {*defined_names(node)}]
        if not more:
            return [node for index, node in enumerate(body) if index not in needed_indices and not is_plain_import(node)]
        for index in more:
            needed_indices.add(index)
            needed_names |= {one.id for one in ast.walk(body[index]) if isinstance(one, ast.Name)}


def defined_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a module-level statement defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    else:
        yield from (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))


def is_plain_import(node: ast.stmt) -> bool:
    """Return whether a statement is an ordinary import; imports for compiling extensions belong to the solution."""
    if isinstance(node, ast.ImportFrom):
        return node.module is not None and not node.module.endswith("cpp_extension")
    return isinstance(node, ast.Import) and not any(alias.name.endswith("cpp_extension") for alias in node.names)
