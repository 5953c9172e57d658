"""Which lines of a kernel also occur in the kernel that it started from or in the memory items that its prompt showed.

Resemblance is no proof of origin: a generator can write a common line by itself. Lines that every kernel of a language has, such as braces
and short declarations, are not compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from evokernel.core.code_text import TOKEN, strip_comments

MIN_TOKENS, MIN_RENAMED_TOKENS = 6, 10
"""Shorter lines are too common: to be compared at all, and to be compared without their names."""
MAX_LINES = 3000
"""Lines of a longer kernel or item that are not compared."""
CODE_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
OPERAND, NAME = re.compile(r"\w+"), re.compile(r"[A-Za-z_]\w*")


class Source(NamedTuple):
    """A text that a kernel may resemble."""

    key: str
    """Its letter in the listing."""
    title: str
    code: str


class Resemblance(NamedTuple):
    """A source that has a line of the kernel."""

    source: Source
    is_exact: bool
    """Whether the lines differ at most in spaces and comments; otherwise also in names and numbers."""


class MarkedLine(NamedTuple):
    """A line of a kernel with the sources that have it."""

    number: int
    text: str
    matches: tuple[Resemblance, ...] = ()


def extract_code(code: str, text: str) -> str:
    """Return the code of a memory item: its kernel and the code blocks of its text."""
    return "\n".join([code, *CODE_BLOCK.findall(text)])


def exact_form(line: str) -> tuple[str, ...]:
    """Return the tokens of a line; empty if it is too short to compare."""
    tokens = tuple(TOKEN.findall(line))
    return tokens if len(tokens) >= MIN_TOKENS and sum(NAME.fullmatch(token) is not None for token in tokens) >= 2 else ()


def renamed_form(line: str) -> tuple[str, ...]:
    """Return the tokens of a line with `name` for each variable and number; functions keep their names.

    Empty if the line is too short, or calls nothing.
    """
    tokens = TOKEN.findall(line)
    if len(tokens) < MIN_RENAMED_TOKENS:
        return ()
    is_called = [after == "(" and NAME.fullmatch(token) is not None for token, after in zip(tokens, [*tokens[1:], ""], strict=True)]
    if not any(is_called):
        return ()
    return tuple(token if called or not OPERAND.fullmatch(token) else "name" for token, called in zip(tokens, is_called, strict=True))


def code_lines(code: str) -> list[str]:
    """Return the lines of a text without comments; line numbers stay."""
    kept_lines = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), code, flags=re.DOTALL)
    return [strip_comments(line) for line in kept_lines.splitlines()[:MAX_LINES]]


def mark_lines(kernel: str, start: Source | None, items: Sequence[Source]) -> list[MarkedLine]:
    """Return the lines of a kernel, each with the sources that have it; a line of the start point is not credited to memory items."""
    sources = [*([start] if start else []), *items]
    forms = [({form for line in code_lines(s.code) if (form := make(line))}) for s in sources for make in (exact_form, renamed_form)]
    marked = []
    bare_lines = code_lines(kernel)
    for number, text in enumerate(kernel.splitlines(), start=1):
        bare = bare_lines[number - 1] if number <= len(bare_lines) else ""
        exact, renamed = exact_form(bare), renamed_form(bare)
        matches = [
            Resemblance(source, bool(exact) and exact in forms[2 * place])
            for place, source in enumerate(sources)
            if (exact and exact in forms[2 * place]) or (renamed and renamed in forms[2 * place + 1])
        ]
        inherited = [match for match in matches if match.source is start and match.is_exact]
        marked.append(MarkedLine(number, text, tuple(inherited or matches)))
    return marked


def count_lines(files: Mapping[str, Sequence[MarkedLine]]) -> dict[str, int]:
    """Return how many lines of the kernel each source has, by its key."""
    return Counter(match.source.key for lines in files.values() for line in lines for match in line.matches)
