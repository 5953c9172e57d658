"""C++ and its kin, taken apart into tokens as a compiler reads them: escaped line ends are joined first."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

PATTERNS = {
    "space": r"[^\S\n]+",
    "newline": r"\n",
    "comment": r"//[^\n]*|/\*.*?(?:\*/|\Z)",
    "raw": r'(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?(?:\)(?P=delimiter)"|\Z)',
    "string": r'(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*(?:"|$)',
    "char": r"(?:u8|[uUL])?'(?:[^'\\\n]|\\.)*(?:'|$)",
    "number": r"\.?\d(?:[eEpP][+-]|'?[\w.])*",
    "word": r"[^\W\d]\w*",
    "sign": r"%:%:|%:|\#\#|\#|::|.",
}
TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in PATTERNS.items()), re.DOTALL | re.MULTILINE)


class Token(NamedTuple):
    """One token of the text."""

    kind: str
    """As in `PATTERNS`, or `torn`: a raw string with an escaped line end in it, which compilers do not join there."""
    text: str
    line: int


def tokenize(source: str) -> Iterator[Token]:
    """All of the text, comments and blanks as well."""
    text, joints = join_lines(source.removeprefix("\ufeff"))  # some editors begin a file with a mark that compilers skip
    line = 1
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        if kind == "raw" and bisect_right(joints, match.start()) != bisect_right(joints, match.end() - 1):
            kind = "torn"
        yield Token(kind, match[0], line + bisect_right(joints, match.start()))
        line += match[0].count("\n")


def join_lines(source: str) -> tuple[str, list[int]]:
    """The text without escaped line ends, and where in it they were."""
    pieces = re.split(r"\\[ \t\f\v\0]*\r?\n", source)
    joints, at = [], 0
    for piece in pieces[:-1]:
        at += len(piece)
        joints.append(at)
    return "".join(pieces), joints
