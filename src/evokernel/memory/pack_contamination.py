"""Refuses a memory pack that contains data on the operators it is evaluated on.

It recognises operators by task, and by content: under another name, at another size, with other variables or an additional line.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from evokernel.core.code_text import HASH_COMMENT, Ngrams, token_ngrams
from evokernel.core.errors import UserError
from evokernel.core.records import MemoryItem

MAX_NAMED = 5
NGRAM_LENGTH = 4
"""Tokens per n-gram."""
MIN_SIMILARITY, MIN_QUOTED_SHARE = 0.9, 0.9
"""Two operators are the same if they share this part of their n-grams; a text quotes one if it contains this part of its n-grams."""
MIN_NGRAMS = 8
"""Operators with fewer n-grams are not searched for in texts: they occur in many."""
TORCH_NAMES = {"torch", "nn", "F"}
WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|[^\s\w]")


class OperatorSource(Protocol):
    """The part of a task that the search needs."""

    @property
    def id(self) -> str: ...

    @property
    def source(self) -> str: ...


def refuse_contaminated_pack(pack: Path, items: Iterable[MemoryItem], tasks: Sequence[OperatorSource]) -> None:
    """Raise if a pack contains data on one of the tasks."""
    if matches := list_contamination(items, tasks):
        more = f" and {len(matches) - MAX_NAMED} more" if len(matches) > MAX_NAMED else ""
        names = f"{', '.join(matches[:MAX_NAMED])}{more}"
        raise UserError(f"{pack} contains data on operators it is evaluated on ({names}). Learn a pack on other operators.")


def list_contamination(items: Iterable[MemoryItem], tasks: Sequence[OperatorSource]) -> list[str]:
    """Return the tasks that items belong to, whose operator they were written for under any name, or whose reference they quote."""
    held_out = HeldOutOperators(tasks)
    matches: dict[str, None] = {}
    for item in items:
        match held_out.match_item(item):
            case id, "task":
                matches[id] = None
            case id, ("reference" | "structure") if item.task:
                matches[f"{id} as {item.task}"] = None
            case id, _:
                matches[f"{id} in {item.id}"] = None
    return list(matches)


class HeldOutOperators:
    """The operators that a pack must not contain data on, prepared for the search."""

    def __init__(self, tasks: Iterable[OperatorSource]) -> None:
        task_list = list(tasks)
        self.ids = [task.id for task in task_list]
        self.ngrams = {task.id: model_ngrams(task.source) for task in task_list}
        self.texts = {normalize_source(task.source): task.id for task in task_list}
        self._matches_by_key: dict[str, tuple[str, str] | None] = {}

    def match_item(self, item: MemoryItem) -> tuple[str, str] | None:
        """Return the operator that an item reveals, and by what: `task`, `reference`, `structure` or `quote`."""
        if item.task in self.ngrams:
            return item.task, "task"
        if item.key not in self._matches_by_key:
            self._matches_by_key[item.key] = self.match_reference(item.key)
        if match := self._matches_by_key[item.key]:
            return match
        operator = find_quoted_operator(f"{item.title}\n{item.text}\n{item.code}", self.ngrams)
        return (operator, "quote") if operator else None

    def match_reference(self, source: str) -> tuple[str, str] | None:
        """Return the operator that a reference computes."""
        if not source:
            return None
        if id := self.texts.get(normalize_source(source)):
            return id, "reference"
        id = find_same_operator(source, self.ngrams)
        return (id, "structure") if id else None


def normalize_source(source: str) -> str:
    """Return a reference's source without its numbers, comments and layout."""
    try:
        return re.sub(r"\b\d[\w.]*", "0", ast.unparse(ast.parse(source)))
    except (SyntaxError, ValueError):
        return source


def find_same_operator(source: str, operators: dict[str, Ngrams]) -> str:
    """Return the task whose reference has the same structure; an empty text if there is none."""
    ngrams = model_ngrams(source)
    for id, operator in operators.items():
        if ngrams and operator and len(ngrams & operator) >= MIN_SIMILARITY * len(ngrams | operator):
            return id
    return ""


def find_quoted_operator(text: str, operators: dict[str, Ngrams]) -> str:
    """Return the task whose reference a text quotes; an empty text if there is none."""
    if "forward" not in text and "torch" not in text:
        return ""  # most items are kernels in another language
    ngrams = token_ngrams(tokenize_text(text), NGRAM_LENGTH)
    for id, operator in operators.items():
        if len(operator) >= MIN_NGRAMS and len(ngrams & operator) >= MIN_QUOTED_SHARE * len(operator):
            return id
    return ""


def model_ngrams(source: str) -> Ngrams:
    """Return the n-grams of a reference's Model, statement by statement, without its own names, numbers, comments and layout.

    The result is empty for a text without a Model.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    model = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model"), None)
    functions = [node for node in (model.body if model else ()) if isinstance(node, ast.FunctionDef)]
    texts = [ast.unparse(statement) for function in functions for statement in function.body if not is_docstring(statement)]
    return frozenset().union(*(token_ngrams(tokenize_python(text), NGRAM_LENGTH) for text in texts if not text.startswith("super(")))


def tokenize_python(text: str) -> Iterator[str]:
    """Return the anonymized tokens of Python code."""
    kinds = (tokenize.NAME, tokenize.NUMBER, tokenize.OP)
    return anonymize_tokens(token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type in kinds)


def tokenize_text(text: str) -> Iterator[str]:
    """Return the anonymized tokens of any text."""
    return anonymize_tokens(match[0] for match in WORD.finditer(re.sub(HASH_COMMENT, "", text)))


def anonymize_tokens(tokens: Iterable[str]) -> Iterator[str]:
    """Replace numbers and the code's own names; keep keywords, torch's names and other attributes."""
    owner = before = ""
    for token in tokens:
        if token[0].isdigit():
            yield "0"
        elif token[0].isalpha() or token[0] == "_":
            is_external = (before == "." and owner != "self") or keyword.iskeyword(token) or token in TORCH_NAMES
            yield token if is_external else "name"
        else:
            yield token
        owner, before = before, token


def is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
