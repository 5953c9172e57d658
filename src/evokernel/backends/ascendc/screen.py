"""Finds forbidden code in an operator project: in its source, in its preprocessed source, and in the compiled library."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from evokernel.backends.native import screen
from evokernel.backends.native.elf import read_elf
from evokernel.backends.native.object_checks import check_imported_symbols
from evokernel.core.c_tokens import Token
from evokernel.core.errors import CandidateError

HERE = Path(__file__).parent
RULES = HERE / "screen.toml"
SIMULATOR_NAME = re.compile(r"\bsimulator\w*(?:\s*(?:::|->|\.)\s*\w+)*")
"""A name of the simulator, with its chain of members."""


class BackendRules(NamedTuple):
    """Rules that only this backend has."""

    simulator_members: frozenset[str]
    """Members of the simulator's tensors that CANN's tensors do not have."""
    keywords: frozenset[str]
    """C++ keywords that no macro may redefine."""


@lru_cache
def load_backend_rules() -> BackendRules:
    table = tomllib.loads(RULES.read_text())["backend"]
    return BackendRules(frozenset(table["simulator_members"].split()), frozenset(table["keywords"].split()))


def find_violations(files: Mapping[str, str], hosts: Collection[str] = ()) -> Iterator[str]:
    """Yield each violation with its file and line; `hosts` are the files with host code."""
    rules = screen.read_rules(RULES)
    declared_names = {word for text in files.values() for word in find_declared_members(text)}
    for name, text in sorted(files.items()):
        yield from screen.find_violations(name, text, rules, files)
        tokens = list(screen.preprocessor_tokens(text))
        for line in find_redefined_keywords(tokens):
            yield f"{name} line {line.line}: `{line.text}` is a C++ keyword and must not be a macro: give the macro another name"
        for token in [] if name in hosts else find_simulator_members(tokens):
            if token.text not in declared_names:
                what = f"`.{token.text}` is a member of the simulator, which Ascend C tensors do not have"
                yield f"{name} line {token.line}: {what}: use the documented tensor API"


def find_redefined_keywords(found: Sequence[Token]) -> Iterator[Token]:
    """Macro definitions whose name is a C++ keyword."""
    for first, *rest in screen.directive_lines(found):
        if first.text == "define" and rest and rest[0].text in load_backend_rules().keywords:
            yield rest[0]


def find_simulator_members(found: Sequence[Token]) -> Iterator[Token]:
    """Uses of members that only the simulator's tensors have."""
    code = [token for token in found if token.kind != "newline"]
    for before, last, token in zip(["", *(token.text for token in code)], [token.text for token in code], code[1:]):
        if token.text in load_backend_rules().simulator_members and (last == "." or (before, last) == ("-", ">")):
            yield token


def find_declared_members(text: str) -> set[str]:
    """Members with such names that the candidate declares itself."""
    code = [token for token in screen.preprocessor_tokens(text) if token.kind != "newline"]
    return {
        token.text
        for before, (last, token) in zip([None, *code], pairwise(code))
        if token.text in load_backend_rules().simulator_members
        and (last.kind == "word" or last.text in ("&", "*", ",") or (last.text == ")" and before is not None and before.text == "auto"))
    }


def check_preprocessed(expanded: str, files: Collection[str]) -> None:
    """Refuse forbidden names in preprocessed source, except those that the API's own macros insert."""
    source = SIMULATOR_NAME.sub(lambda match: match[0] if is_simulator_internal(match[0]) else "", screen.candidate_lines(expanded, files))
    if violations := [what for _, what in screen.check_words(list(screen.preprocessor_tokens(source)), screen.read_rules(RULES))]:
        raise CandidateError("forbidden", "macros compose forbidden code: " + "; ".join(dict.fromkeys(violations[:5])))


def is_simulator_internal(chain: str) -> bool:
    """Whether no macro of the API inserts this name of the simulator."""
    plain = re.sub(r"\s", "", chain)
    return plain not in api_macro_names() and not ("::" not in plain and any(plain.startswith(word) for word in api_macro_names()))


@lru_cache
def api_macro_names() -> frozenset[str]:
    """Names of the simulator that the API's macros insert, without whitespace."""
    names = set()
    for path in (HERE / "simulator").rglob("*.h*"):
        for body in re.findall(r"^[ \t]*#[ \t]*define (?!SIMULATOR_)(?:.*\\\n)*.*$", path.read_text(), re.M):
            names |= {re.sub(r"\s", "", chain) for chain in SIMULATOR_NAME.findall(body)}
    return frozenset(names - {"simulator"})


def check_library_symbols(library: Path, runtime: Path) -> None:
    """Refuse undefined symbols of the library, except those of the simulator and of basic computation."""
    operator_elf, simulator_elf = read_elf(library), read_elf(runtime)
    if operator_elf is None or simulator_elf is None:
        return
    check_imported_symbols(
        operator_elf,
        screen.read_rules(RULES).allowed_symbols,
        "arithmetic, memory and Ascend C",
        frozenset(simulator_elf.symbols.exported_names),
    )
