"""Does a memory pack tell about the very operators it is to be tried on? By task, and by content: under another name, at another size,
with other variables or a line more."""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from evokernel.core.errors import UserError
from evokernel.core.records import MemoryItem

NAMED = 5
RUN = 4
"""Tokens in a row that are looked at together."""
ALIKE, HELD = 0.9, 0.9
"""Two operators are the same when so many of these runs are in both; and a text holds one when it holds so many of the operator's."""
FEWEST = 8
"""Runs of an operator that is looked for in other texts: a shorter one is in many."""
KNOWN = {"torch", "nn", "F"}
COMMENT = re.compile(r"#[^\n]*")
WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")
Runs = frozenset[tuple[str, ...]]


class Described(Protocol):
    """An operator as it is looked for: a Task, or less."""

    @property
    def id(self) -> str: ...

    @property
    def source(self) -> str: ...


def refuse_leaks(pack: Path, items: Iterable[MemoryItem], tasks: Sequence[Described]) -> None:
    """Raises where a pack holds something about one of the tasks."""
    if found := leaks(items, tasks):
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise UserError(f"{pack} tells about what it is to be tried on ({', '.join(found[:NAMED])}{more}): learn one on other operators")


def leaks(items: Iterable[MemoryItem], tasks: Sequence[Described]) -> list[str]:
    """The tasks that items came from, whose operator they were written for under whatever name, or whose reference they quote."""
    held_out = HeldOut(tasks)
    found: dict[str, None] = {}
    for item in items:
        match held_out.told_by(item):
            case id, "task":
                found[id] = None
            case id, ("reference" | "structure") if item.task:
                found[f"{id} as {item.task}"] = None
            case id, _:
                found[f"{id} in {item.id}"] = None
    return list(found)


class HeldOut:
    """Operators of which nothing is to be told, as they are looked for."""

    def __init__(self, tasks: Iterable[Described]) -> None:
        listed = list(tasks)
        self.ids = [task.id for task in listed]
        self.runs = {task.id: model_runs(task.source) for task in listed}
        self.texts = {without_sizes(task.source): task.id for task in listed}
        self._seen: dict[str, tuple[str, str] | None] = {}

    def told_by(self, item: MemoryItem) -> tuple[str, str] | None:
        """The operator an item tells about, and how that is known: `task`, `reference`, `structure` or `quote`."""
        if item.task in self.runs:
            return item.task, "task"
        if item.key not in self._seen:
            self._seen[item.key] = self.written_for(item.key)
        if found := self._seen[item.key]:
            return found
        quoted = quotes(f"{item.title}\n{item.text}\n{item.code}", self.runs)
        return (quoted, "quote") if quoted else None

    def written_for(self, source: str) -> tuple[str, str] | None:
        """The operator that a reference is one of."""
        if not source:
            return None
        if id := self.texts.get(without_sizes(source)):
            return id, "reference"
        id = same_operator(source, self.runs)
        return (id, "structure") if id else None


def without_sizes(source: str) -> str:
    """A reference's text whatever its numbers, comments and layout."""
    try:
        return re.sub(r"\b\d[\w.]*", "0", ast.unparse(ast.parse(source)))
    except (SyntaxError, ValueError):
        return source


def same_operator(source: str, operators: dict[str, Runs]) -> str:
    """The task whose reference computes what this one does, as far as its text tells; empty where none does."""
    mine = model_runs(source)
    for id, theirs in operators.items():
        if mine and theirs and len(mine & theirs) >= ALIKE * len(mine | theirs):
            return id
    return ""


def quotes(text: str, operators: dict[str, Runs]) -> str:
    """The task whose reference stands in a text."""
    if "forward" not in text and "torch" not in text:
        return ""  # most items are kernels in another language
    mine = runs(plain_tokens(text))
    return next((id for id, theirs in operators.items() if len(theirs) >= FEWEST and len(mine & theirs) >= HELD * len(theirs)), "")


def runs(tokens: Iterable[str], length: int = RUN) -> Runs:
    """Every so many tokens in a row."""
    listed = list(tokens)
    return frozenset(zip(*(listed[start:] for start in range(length)), strict=False))


def model_runs(source: str) -> Runs:
    """What a reference's Model does, statement by statement, without names of its own, numbers, comments and layout.

    Nothing of a text that is no reference.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"), None)
    functions = [node for node in (model.body if model else ()) if isinstance(node, ast.FunctionDef)]
    texts = [ast.unparse(statement) for function in functions for statement in function.body if not is_text(statement)]
    return frozenset().union(*(runs(python_tokens(text)) for text in texts if not text.startswith("super(")))


def python_tokens(text: str) -> Iterator[str]:
    kinds = (tokenize.NAME, tokenize.NUMBER, tokenize.OP)
    return plain(token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type in kinds)


def plain_tokens(text: str) -> Iterator[str]:
    """The same of any text."""
    return plain(found[0] for found in WORD.finditer(COMMENT.sub("", text)))


def plain(tokens: Iterable[str]) -> Iterator[str]:
    """A name of the writer's own is any name, a number any number; what else follows a dot, and the language's words, stay."""
    whose = before = ""
    for token in tokens:
        if token[0].isdigit():
            yield "0"
        elif token[0].isalpha() or token[0] == "_":
            is_theirs = (before == "." and whose != "self") or keyword.iskeyword(token) or token in KNOWN
            yield token if is_theirs else "name"
        else:
            yield token
        whose, before = before, token


def is_text(node: ast.stmt) -> bool:
    """A docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
