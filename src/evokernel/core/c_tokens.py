"""Tokenizer for C, C++ and related languages. It joins escaped line ends first, as a compiler does."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from evokernel.core.code_text import C_COMMENT

PATTERNS = {
    "space": r"[^\S\n]+",
    "newline": r"\n",
    "comment": C_COMMENT,
    "raw": r'(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z)',
    "string": r'(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*(?:"|$)',
    "char": r"(?:u8|[uUL])?'(?:[^'\\\n]|\\.)*(?:'|$)",
    "number": r"\.?\d(?:[eEpP][+-]|'?[\w.])*",
    "word": r"[^\W\d]\w*",
    "sign": r"%:%:|%:|\#\#|\#|::|.",
}
TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS.items()), re.DOTALL | re.MULTILINE)


class Token(NamedTuple):
    """One token of the source."""

    kind: str
    """A key of `PATTERNS`, or `torn`: a raw string that contains an escaped line end, which compilers do not join."""
    text: str
    line: int


def tokenize(source: str) -> Iterator[Token]:
    """Yield all tokens of the source, including comments and whitespace."""
    text, joints = join_lines(source.removeprefix("\ufeff"))  # compilers skip a byte order mark
    line = 1
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        if kind == "raw" and bisect_right(joints, match.start()) != bisect_right(joints, match.end() - 1):
            kind = "torn"
        yield Token(kind, match[0], line + bisect_right(joints, match.start()))
        line += match[0].count("\n")


def join_lines(source: str) -> tuple[str, list[int]]:
    """Join escaped line ends; return the text and the positions of the joints."""
    pieces = re.split(r"\\[ \t\f\v\0]*\r?\n", source)
    joints, position = [], 0
    for piece in pieces[:-1]:
        position += len(piece)
        joints.append(position)
    return "".join(pieces), joints
