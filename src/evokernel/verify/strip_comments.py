"""A candidate's code as an auditor sees it: no comments, no docstrings, text literals marked, equal code equal to the letter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from evokernel.core import c_tokens
from evokernel.core.records import Candidate

CODE_CHARS = 100_000
LITERAL_CHARS, LONGEST_CHAR = 200, 7
OPEN, CLOSE = "«", "»"
"""Around every text literal. Neither can stand in code, and inside a literal whatever is not ASCII is escaped."""


class Unreadable(Exception):
    """No code without comments can be made of it."""


def bare(candidate: Candidate) -> str:
    """All files, each under its name. Raises Unreadable."""
    texts = [(name, python(text) if Path(name).suffix == ".py" else c_like(text)) for name, text in sorted(candidate.files.items())]
    code = "\n".join(f"== {escaped(name)} ==\n{text}" for name, text in texts)
    if len(code) > CODE_CHARS:
        raise Unreadable(f"{len(code)} characters of code are more than are looked at ({CODE_CHARS})")
    return code


def c_like(source: str) -> str:
    """C++ and its kin."""
    lines = (line.strip() for line in "".join(c_pieces(source)).splitlines())
    return "\n".join(line for line in lines if line)


def c_pieces(source: str) -> Iterator[str]:
    """What is kept, token by token."""
    for kind, text, _ in c_tokens.tokenize(source):
        if kind == "torn":  # whether a line end inside a raw literal counts is where two readers of one text begin to differ
            raise Unreadable("raw string literals and lines joined with a backslash do not go together")
        if kind in ("comment", "space", "newline"):
            yield "\n" if kind == "newline" else " "
        elif kind == "raw":
            yield f'"{marked(text[text.index("(") + 1 : text.rfind(")")])}"'
        elif kind == "string":
            yield f'"{marked(text.partition(chr(34))[2].removesuffix(chr(34)))}"'
        elif kind == "char" and len(text) > LONGEST_CHAR:
            yield f"'{marked(text)}'"
        else:
            yield escaped(text)


def python(source: str) -> str:
    """Python, taken apart and written down again by Python's own parser."""
    try:
        tree = Bare().visit(ast.parse(source))
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if body == [] and not isinstance(node, ast.Module):
                body.append(ast.Pass())
        text = ast.unparse(ast.fix_missing_locations(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"the code cannot be taken apart ({type(error).__name__})") from error
    return "".join(c if c in f"{OPEN}{CLOSE}\n" else escaped(c) for c in text)


class Bare(ast.NodeTransformer):
    """Drops text that stands alone, marks text that does not; a text with values in it becomes a call."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        alone = isinstance(node.value, ast.JoinedStr) or (
            isinstance(node.value, ast.Constant) and isinstance(node.value.value, str | bytes)
        )
        return None if alone else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str):
            return ast.Constant(marked(node.value))
        if isinstance(node.value, bytes):
            return ast.Constant(f"bytes {marked(node.value.decode('latin-1'))}")
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Call:
        return ast.Call(ast.Name("text_of"), [self.visit(value) for value in node.values], [])

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        value: ast.expr = self.visit(node.value)
        return ast.Call(ast.Name("format"), [value, self.visit(node.format_spec)], []) if node.format_spec else value


def marked(text: str) -> str:
    """A literal's text: escaped, cut, between marks."""
    plain = escaped(text)
    more = f" ... {len(plain) - LITERAL_CHARS} more characters" if len(plain) > LITERAL_CHARS else ""
    return f"{OPEN}{plain[:LITERAL_CHARS]}{more}{CLOSE}"


def escaped(text: str) -> str:
    """ASCII without control characters, so that letters that only look alike can be told apart."""
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode("ascii") for c in text)
