"""Strips a candidate's code for the LLM review: no comments, no docstrings, marked string literals; equal code gives equal text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from evokernel.core import c_tokens
from evokernel.core.records import Candidate

MAX_CODE_CHARS = 100_000
MAX_LITERAL_CHARS, MAX_CHAR_LITERAL = 200, 7
OPEN_MARK, CLOSE_MARK = "«", "»"
"""Marks around every string literal. Neither occurs in code, and non-ASCII characters inside a literal are escaped."""


class UnreadableCode(Exception):
    """The code cannot be separated from its comments."""


def strip_candidate(candidate: Candidate) -> str:
    """Return the stripped text of all files, each under its name. Raise UnreadableCode."""
    texts = [
        (name, strip_python_source(text) if Path(name).suffix == ".py" else strip_c_source(text))
        for name, text in sorted(candidate.files.items())
    ]
    code = "\n".join(f"== {escape_non_ascii(name)} ==\n{text}" for name, text in texts)
    if len(code) > MAX_CODE_CHARS:
        raise UnreadableCode(f"the code has {len(code)} characters; the limit is {MAX_CODE_CHARS}")
    return code


def strip_c_source(source: str) -> str:
    """Strip C++ and similar languages."""
    lines = (line.strip() for line in "".join(strip_c_tokens(source)).splitlines())
    return "\n".join(line for line in lines if line)


def strip_c_tokens(source: str) -> Iterator[str]:
    """Yield the stripped tokens."""
    for kind, text, _ in c_tokens.tokenize(source):
        if kind == "torn":  # parsers disagree on line ends inside a raw literal
            raise UnreadableCode("a raw string literal contains a line joined with a backslash")
        if kind in ("comment", "space", "newline"):
            yield "\n" if kind == "newline" else " "
        elif kind == "raw":
            yield f'"{mark_literal(text[text.index("(") + 1 : text.rfind(")")])}"'
        elif kind == "string":
            yield f'"{mark_literal(text.partition(chr(34))[2].removesuffix(chr(34)))}"'
        elif kind == "char" and len(text) > MAX_CHAR_LITERAL:
            yield f"'{mark_literal(text)}'"
        else:
            yield escape_non_ascii(text)


def strip_python_source(source: str) -> str:
    """Strip Python by parsing it and printing the syntax tree."""
    try:
        tree = TextStripper().visit(ast.parse(source))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if body == [] and not isinstance(node, ast.Module):
                body.append(ast.Pass())
        text = ast.unparse(ast.fix_missing_locations(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableCode(f"the code cannot be parsed ({type(error).__name__})") from error
    return "".join(c if c in f"{OPEN_MARK}{CLOSE_MARK}\n" else escape_non_ascii(c) for c in text)


class TextStripper(ast.NodeTransformer):
    """Removes string statements and marks other string literals; an f-string becomes a call."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.JoinedStr) or (
            isinstance(node.value, ast.Constant) and isinstance(node.value.value, str | bytes)
        )
        return None if is_text else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            return ast.Constant(mark_literal(node.value))
        if isinstance(node.value, bytes):
            return ast.Constant(f"bytes {mark_literal(node.value.decode('latin-1'))}")
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Call:
        return ast.Call(ast.Name("text_of"), [self.visit(value) for value in node.values], [])

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        value: ast.expr = self.visit(node.value)
        return ast.Call(ast.Name("format"), [value, self.visit(node.format_spec)], []) if node.format_spec else value


def mark_literal(text: str) -> str:
    """Escape, shorten and mark the text of a literal."""
    escaped_text = escape_non_ascii(text)
    suffix = f" ... {len(escaped_text) - MAX_LITERAL_CHARS} more characters" if len(escaped_text) > MAX_LITERAL_CHARS else ""
    return f"{OPEN_MARK}{escaped_text[:MAX_LITERAL_CHARS]}{suffix}{CLOSE_MARK}"


def escape_non_ascii(text: str) -> str:
    """Escape non-ASCII and control characters, so that letters that look alike can be distinguished."""
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text)
