"""First look at the text, for what has no place in a kernel; the built object is looked at as well, and that does not lie."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

LIMIT_BYTES = 256 << 10
LITERALS = 4096
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
NOT_QUALIFIERS = {"return", "throw", "else", "case", "do", "new", "delete", "and", "or", "not"}


class Token(NamedTuple):
    """One token of the text, comments and blanks left out."""

    kind: str
    text: str
    line: int


class Rules(NamedTuple):
    """The word lists of `screen.toml`."""

    headers: frozenset[str]
    directives: frozenset[str]
    pragmas: frozenset[str]
    attributes: frozenset[str]
    called_only: frozenset[str]
    reaches: dict[str, str]
    """Word to what it reaches for."""


@lru_cache
def rules() -> Rules:
    """Read when first needed."""
    table = tomllib.loads((Path(__file__).parent / "screen.toml").read_text())
    return Rules(
        headers=frozenset(" ".join(table["headers"].values()).split()),
        directives=frozenset(table["directives"]["allowed"].split()),
        pragmas=frozenset(table["directives"]["pragmas"].split()),
        attributes=frozenset(table["attributes"]["refused"].split()),
        called_only=frozenset(table["names"]["called"].split()),
        reaches={word: what for what, words in table["reaches"].items() for word in words.split()},
    )


@lru_cache
def allowed_symbols() -> re.Pattern[str]:
    """The names a built kernel may leave for the loader to find."""
    table = tomllib.loads((Path(__file__).parent / "screen.toml").read_text())
    return re.compile("|".join(f"(?:{pattern})" for pattern in table["symbols"]["allowed"]))


def tokens(source: str) -> Iterator[Token]:
    """The text as the compiler reads it: lines joined first, comments gone, strings whole."""
    text, joints = join_lines(source.removeprefix("\ufeff"))  # some editors begin a file with a mark that compilers skip
    line = 1
    for match in TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        if kind not in ("comment", "space"):
            yield Token("string" if kind == "raw" else kind, match[0].replace("%:", "#"), line + bisect_right(joints, match.start()))
        line += match[0].count("\n")


def join_lines(source: str) -> tuple[str, list[int]]:
    """The text without escaped line ends, and where in it they were."""
    pieces = re.split(r"\\[ \t]*\r?\n", source)
    joints, at = [], 0
    for piece in pieces[:-1]:
        at += len(piece)
        joints.append(at)
    return "".join(pieces), joints


def findings(name: str, source: str) -> Iterator[str]:
    """What has no place in a kernel, each with its line."""
    if len(source.encode()) > LIMIT_BYTES:
        yield f"{name} is longer than {LIMIT_BYTES >> 10} KiB: compute what a table would hold"
        return
    found = list(tokens(source))
    if sum(token.kind == "number" for token in found) > LITERALS:
        yield f"{name} holds more than {LITERALS} number literals: compute what a table would hold"
    for token in found:
        if token.kind in ("word", "sign") and not token.text.isascii():
            yield f"{name} line {token.line}: {token.text!r} is not ASCII"
    yield from (f"{name} line {at}: {what}" for at, what in sorted({*directives(found), *words(found), *attributes(found)}))


def directives(found: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Preprocessor lines that reach outside: unknown headers, paths, anything but the common directives."""
    line: list[Token] = []
    for token in [*found, Token("newline", "\n", 0)]:
        if token.kind != "newline":
            line.append(token)
            continue
        if len(line) > 1 and line[0].text == "#":
            number, word = line[0].line, line[1].text
            if line[1].kind == "word" and word not in rules().directives:
                yield number, f"#{word} is not allowed"
            elif word == "include":
                header = "".join(part.text for part in line[2:])
                if not (header.startswith("<") and header.strip("<>") in rules().headers):
                    allowed = "standard headers for mathematics and containers, <omp.h> and intrinsics"
                    yield number, f"#include {header} is not allowed, only {allowed}"
            elif word == "pragma" and len(line) > 2 and line[2].text in rules().pragmas:
                yield number, f"#pragma {line[2].text} is not allowed"
        line = []


def words(found: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Identifiers that reach for something a kernel does not need."""
    code = [token for token in found if token.kind != "newline"]
    for index, token in enumerate(code):
        what = rules().reaches.get(token.text) if token.kind == "word" else None
        if what is None:
            continue
        if token.text in rules().called_only and not is_foreign(code[max(0, index - 2) : index]):
            continue  # a name of the candidate's own; if it is not, the built object's symbols tell
        yield token.line, f"`{token.text}` reaches for {what}"


def is_foreign(before: Sequence[Token]) -> bool:
    """Whether what precedes a name takes it from the global scope or from the standard library."""
    texts = [token.text for token in before]
    return bool(texts) and texts[-1] == "::" and (len(texts) < 2 or texts[0] in {"std", *NOT_QUALIFIERS} or before[0].kind != "word")


def attributes(found: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Attributes that run code while loading, or move, rename or export it."""
    code = [token for token in found if token.kind != "newline"]
    depth, inside = 0, False
    for index, token in enumerate(code):
        following = code[index + 1].text if index + 1 < len(code) else ""
        if token.text in ("__attribute__", "__attribute", "__declspec") or (token.text == "[" and following == "["):
            inside, depth = True, 0
        if inside:
            depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
            if token.text in rules().attributes and not is_default_visibility(code[index : index + 3]):
                yield token.line, f"the attribute {token.text} is not allowed"
            inside = depth > 0 or token.text.startswith("__") or token.text == "["


def is_default_visibility(code: Sequence[Token]) -> bool:
    """`visibility("default")` is harmless: only the entry point is exported, whatever else asks for it."""
    return [token.text for token in code] == ["visibility", "(", '"default"']


def pastes_tokens(source: str) -> bool:
    """Whether macros could spell words that the text does not hold."""
    return any(token.text == "##" for token in tokens(source))


def unwanted_words(expanded: str) -> list[str]:
    """The words refused in text that the preprocessor has expanded."""
    return [what for _, what in words(list(tokens(expanded)))]
