"""Does a memory pack tell about the very operators it is to be tried on? By task, and by the reference's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from pathlib import Path

from evokernel.core.errors import UserError
from evokernel.core.records import MemoryItem, Task

NAMED = 5


def refuse_leaks(pack: Path, items: Iterable[MemoryItem], tasks: Sequence[Task]) -> None:
    """Raises where a pack holds something about one of the tasks."""
    if found := leaks(items, tasks):
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise UserError(f"{pack} tells about what it is to be tried on ({', '.join(found[:NAMED])}{more}): learn one on other operators")


def leaks(items: Iterable[MemoryItem], tasks: Sequence[Task]) -> list[str]:
    """The tasks that items came from, or whose reference they were written for, at whatever size."""
    texts = {operator_text(task.source): task.id for task in tasks}
    ids = {task.id for task in tasks}
    known: dict[str, str] = {}
    found: dict[str, None] = {}
    for item in items:
        if item.task is None:
            continue
        if item.key not in known:
            known[item.key] = texts.get(operator_text(item.key), "")
        if item.task in ids or known[item.key]:
            found[item.task if item.task in ids else f"{known[item.key]} as {item.task}"] = None
    return list(found)


def operator_text(source: str) -> str:
    """A reference without comments, docstrings, layout and the sizes at its head."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source.strip()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    tree.body = [node for node in tree.body if not is_constant(node)]
    return ast.dump(tree)


def is_constant(node: ast.stmt) -> bool:
    """Whether a statement only gives a name to a number or a text."""
    return isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
