"""What has no place in an operator project: in its text, in what its macros make of it, and in the library built from it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from evokernel.backends.native import screen
from evokernel.backends.native.elf import read
from evokernel.backends.native.object_checks import refuse_foreign
from evokernel.core.c_tokens import Token
from evokernel.core.errors import CandidateError

HERE = Path(__file__).parent
RULES = HERE / "screen.toml"
CHAIN = re.compile(r"\btwin\w*(?:\s*(?:::|->|\.)\s*\w+)*")
"""A name of the twin's, with all that hangs on it."""


class Own(NamedTuple):
    """What only this backend looks for."""

    members: frozenset[str]
    """What the twin's tensors have and CANN's have not."""
    language: frozenset[str]
    """Words that no macro may replace."""


@lru_cache
def own() -> Own:
    table = tomllib.loads(RULES.read_text())["own"]
    return Own(frozenset(table["members"].split()), frozenset(table["language"].split()))


def findings(files: Mapping[str, str], hosts: Collection[str] = ()) -> Iterator[str]:
    """Each with its file and line; `hosts` are the files that no core ever sees."""
    rules = screen.read(RULES)
    declared = {word for text in files.values() for word in declared_members(text)}
    for name, text in sorted(files.items()):
        yield from screen.findings(name, text, rules, files)
        found = list(screen.tokens(text))
        for line in redefined(found):
            yield f"{name} line {line.line}: `{line.text}` is a word of the language: give the macro another name"
        for token in [] if name in hosts else members(found):
            if token.text not in declared:
                yield f"{name} line {token.line}: `.{token.text}` reaches for the twin itself: Ascend C's tensors have no such member"


def redefined(found: Sequence[Token]) -> Iterator[Token]:
    """Macros in place of words of the language."""
    for first, *rest in screen.lines(found):
        if first.text == "define" and rest and rest[0].text in own().language:
            yield rest[0]


def members(found: Sequence[Token]) -> Iterator[Token]:
    """Uses of the twin's own members."""
    code = [token for token in found if token.kind != "newline"]
    for before, last, token in zip(["", *(token.text for token in code)], [token.text for token in code], code[1:]):
        if token.text in own().members and (last == "." or (before, last) == ("-", ">")):
            yield token


def declared_members(text: str) -> set[str]:
    """Those of the same names that a candidate declares itself."""
    code = [token for token in screen.tokens(text) if token.kind != "newline"]
    return {
        token.text
        for last, token in pairwise(code)
        if token.text in own().members and (last.kind == "word" or last.text in ("&", "*", ","))
    }


def check_expanded(expanded: str, files: Collection[str]) -> None:
    """Refuses words in text that the preprocessor has expanded, save those that the API's own macros put there."""
    left = CHAIN.sub(lambda match: match[0] if is_foreign(match[0]) else "", screen.own_part(expanded, files))
    if found := [what for _, what in screen.words(list(screen.tokens(left)), screen.read(RULES))]:
        raise CandidateError("forbidden", "macros put together: " + "; ".join(dict.fromkeys(found[:5])))


def is_foreign(chain: str) -> bool:
    """Whether no macro of the API says this of the twin."""
    plain = re.sub(r"\s", "", chain)
    return plain not in by_macros() and not ("::" not in plain and any(plain.startswith(word) for word in by_macros()))


@lru_cache
def by_macros() -> frozenset[str]:
    """What macros of the API say of the twin, without blanks."""
    found = set()
    for path in (HERE / "twin").rglob("*.h*"):
        for body in re.findall(r"^[ \t]*#[ \t]*define (?!TWIN_)(?:.*\\\n)*.*$", path.read_text(), re.M):
            found |= {re.sub(r"\s", "", chain) for chain in CHAIN.findall(body)}
    return frozenset(found - {"twin"})


def check_object(library: Path, runtime: Path) -> None:
    """Refuses what is called from outside, save the twin and what computing needs."""
    built, twin = read(library), read(runtime)
    if built is None or twin is None:
        return
    refuse_foreign(built, screen.read(RULES).symbols, "arithmetic, memory and Ascend C", frozenset(twin.symbols.offered))
