"""First look at the text, for what has no place in a kernel; the built object is looked at as well, and that does not lie."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core import c_tokens
from evokernel.core.c_tokens import Token

LIMIT_BYTES = 256 << 10
LITERALS = 4096
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
RESERVED = re.compile(r"__\w*|_[A-Z]\w*")
NOT_QUALIFIERS = {"return", "throw", "else", "case", "do", "new", "delete", "and", "or", "not"}


class Rules(NamedTuple):
    """The word lists of `screen.toml`."""

    headers: frozenset[str]
    directives: frozenset[str]
    pragmas: frozenset[str]
    compilers: frozenset[str]
    conditions: re.Pattern[str]
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
        compilers=frozenset(table["directives"]["compilers"].split()),
        conditions=re.compile("|".join(f"(?:{pattern})" for pattern in table["directives"]["conditions"])),
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
    """The text as the preprocessor sees it: comments and blanks gone, signs in their usual spelling."""
    for token in c_tokens.tokens(source):
        if token.kind not in ("comment", "space"):
            yield token._replace(kind="string" if token.kind == "raw" else token.kind, text=token.text.replace("%:", "#"))


def findings(name: str, source: str) -> Iterator[str]:
    """What has no place in a kernel, each with its line."""
    if len(source.encode()) > LIMIT_BYTES:
        yield f"{name} is longer than {LIMIT_BYTES >> 10} KiB: compute what a table would hold"
        return
    found = list(tokens(source))
    if sum(token.kind == "number" for token in found) > LITERALS:
        yield f"{name} holds more than {LITERALS} number literals: compute what a table would hold"
    if control := CONTROL.search(source):
        yield f"{name} line {source.count(chr(10), 0, control.start()) + 1}: {control[0]!r} is no character of a program"
    for token in found:
        if token.kind in ("word", "sign") and not token.text.isascii():
            yield f"{name} line {token.line}: {token.text!r} is not ASCII"
        if token.kind == "torn":
            yield f"{name} line {token.line}: a raw string with an escaped line end in it"
    yield from (f"{name} line {at}: {what}" for at, what in sorted({*directives(found), *words(found), *attributes(found)}))


def lines(found: Sequence[Token]) -> Iterator[list[Token]]:
    """The preprocessor's lines, without the sign they begin with."""
    line: list[Token] = []
    for token in [*found, Token("newline", "\n", 0)]:
        if token.kind != "newline":
            line.append(token)
            continue
        if len(line) > 1 and line[0].text == "#":
            yield line[1:]
        line = []


def directives(found: Sequence[Token]) -> Iterator[tuple[int, str]]:
    """Preprocessor lines that reach outside: unknown headers, paths, questions about the build, anything but the common directives."""
    own = own_macros(found)
    unreadable = pasting(own)
    for first, *rest in lines(found):
        if first.kind != "word" or first.text not in rules().directives:
            yield first.line, f"#{first.text} is not allowed"
        elif first.text == "include":
            header = "".join(part.text for part in rest)
            if not is_header(header):
                allowed = "standard headers for mathematics and containers, <omp.h> and intrinsics"
                yield first.line, f"#include {header} is not allowed, only {allowed}"
        elif first.text == "pragma":
            yield from ((first.line, what) for what in pragma([part.text for part in rest]))
        elif first.text in ("if", "elif", "ifdef", "ifndef"):
            yield from ((first.line, what) for what in conditions(first.text, rest, own, unreadable))
    for index, token in enumerate(found):
        following = [part for part in found[index + 1 : index + 6] if part.kind != "newline"]
        if token.text == "_Pragma" and len(following) > 1 and following[1].kind == "string":
            inner = following[1].text.partition('"')[2].removesuffix('"').replace('\\"', '"')
            yield from ((token.line, what) for what in pragma([part.text for part in tokens(inner)]))


def is_header(text: str) -> bool:
    """Whether this is one of the headers a kernel may include."""
    return text.startswith("<") and text.strip("<>") in rules().headers


def pragma(said: Sequence[str]) -> Iterator[str]:
    """What has no place in a pragma; those that no compiler knows harm nobody."""
    if said and said[0] in rules().pragmas:
        yield f"#pragma {said[0]} is not allowed"
    elif len(said) > 1 and said[0] in ("GCC", "clang") and said[1] not in rules().compilers:
        yield f"#pragma {said[0]} {said[1]} is not allowed"


def own_macros(found: Sequence[Token]) -> dict[str, set[str]]:
    """What the candidate defines itself: every name with all words and signs of its definitions."""
    own: dict[str, set[str]] = {}
    for first, *rest in lines(found):
        if first.text == "define" and rest:
            own.setdefault(rest[0].text, set()).update(token.text for token in rest[1:])
    return own


def pasting(own: dict[str, set[str]]) -> set[str]:
    """The macros that put tokens together, or use one that does."""
    found = {"##"}
    while more := {name for name, body in own.items() if name not in found and body & found}:
        found |= more
    return found


def conditions(directive: str, asked: Sequence[Token], own: dict[str, set[str]], unreadable: set[str]) -> Iterator[str]:
    """Questions a kernel has no need to ask: how this build is made, what files there are."""
    for index, token in enumerate(asked):
        if token.text == "__has_include":
            header = "".join(part.text for part in asked[index + 2 :]).partition(")")[0]
            if not is_header(header):
                yield f"__has_include({header}) looks for what may not be included"
        elif token.kind == "word" and RESERVED.fullmatch(token.text) and token.text not in own:
            if not rules().conditions.fullmatch(token.text):
                yield f"#{directive} {token.text} asks for what a kernel has no need to know"
        elif directive in ("if", "elif") and token.text in unreadable:
            yield f"#{directive} {token.text}: a condition that pastes tokens cannot be read"


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
