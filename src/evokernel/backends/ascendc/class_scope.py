"""Rewrites what CANN's compiler accepts in a class and g++ rejects. Line numbers do not change.

An explicit specialisation of a member function becomes an overload that takes part only for its argument, and the primary template excludes
that argument. A specialisation of a member class becomes a partial one with an unused parameter. An array that a constexpr constructor
fills without initialising it gets an initial value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from evokernel.backends.ascendc import source_parser

SPECIALISATION = re.compile(r"\btemplate\s*<\s*>")
CLASS_HEAD = re.compile(r"\b(?:class|struct|union)\b(?![^{]*\benum\b)[^;{}()=]*$|\b(?:class|struct)\b[^;{}]*:[^;{}]*$")
FUNCTION = re.compile(r"\s*(?P<before>[^;{}()]*?)\b(?P<name>operator\s*\(\s*\)|\w+)\s*<(?P<arguments>[^;{}()<>]*)>\s*(?=\()")
CLASS = re.compile(r"\s*(?:class|struct)\s+(?P<name>\w+)\s*<(?P<arguments>[^;{}()<>]*)>\s*(?=[{:])")
CLASS_NAME = re.compile(r"\b(?:class|struct)\s+(\w+)\s*(?:<[^;{}]*>\s*)?(?:final\s*)?(?::(?!:)[^;{}]*)?$")
ARRAY_MEMBER = re.compile(r"[;{}:]\s*(?!static\b|using\b|return\b|typedef\b)[A-Za-z_][\w:<>, \t]*\s\w+\s*\[[^\[\];(){}=]+\](?=\s*;)")
PARAMETERS = r"\btemplate\s*<(?P<parameters>[^<>;{}()]*)>"


class Edit(NamedTuple):
    """A part of the text and its replacement, which has as many lines."""

    start: int
    end: int
    text: str


def rewrite_class_scope(text: str) -> str:
    """The text with its specialisations in class scope rewritten."""
    plain = source_parser.strip_inactive_code(text)
    if len(plain) != len(text) or not re.search(r"\btemplate\s*<\s*>|\bconstexpr\b", plain):
        return text
    edits: list[Edit] = []
    for start, end in class_bodies(plain):
        edits += initialise_arrays(plain, start, end)
        for match in SPECIALISATION.finditer(plain, start, end):
            if is_directly_inside(plain, start, match.start()):
                edits += rewrite_specialisation(plain, match, start)
    for edit in sorted(dict.fromkeys(merge_primaries(edits)), reverse=True):
        padding = "\n" * (text.count("\n", edit.start, edit.end) - edit.text.count("\n"))
        text = text[: edit.start] + edit.text + padding + text[edit.end :]
    return text


def class_bodies(plain: str) -> Iterator[tuple[int, int]]:
    """Start and end of the bodies of classes."""
    opened: list[tuple[int, bool]] = []
    head = 0
    for match in re.finditer(r"[;{}]", plain):
        if match[0] == "{":
            opened.append((match.end(), CLASS_HEAD.search(plain, head, match.start()) is not None))
        elif match[0] == "}" and opened:
            start, is_class = opened.pop()
            if is_class:
                yield start, match.start()
        head = match.end()


def is_directly_inside(plain: str, start: int, position: int) -> bool:
    """Whether a position is in the body that begins at `start`, not in a block inside it."""
    between = plain[start:position]
    return between.count("{") == between.count("}")


def rewrite_specialisation(plain: str, match: re.Match[str], body: int) -> list[Edit]:
    """The edits for one specialisation and its primary template; none if the form is not known."""
    if special := CLASS.match(plain, match.end()):
        primary = find_primary(plain, body, match.start(), rf"\s*(?:class|struct)\s+{special['name']}\b")
        if primary is None:
            return []
        name = plain[match.end() : special.start("arguments")].strip()
        head = f"template <class simulatorUnused> {name}{special['arguments']}, simulatorUnused> "
        return [
            Edit(match.start(), special.end(), head),
            Edit(primary.end("parameters"), primary.end("parameters"), ", class simulatorUnused = void"),
        ]
    special = FUNCTION.match(plain, match.end())
    if special is None:
        return []
    name = r"operator\s*\(\s*\)" if special["name"].startswith("operator") else special["name"]
    primary = find_primary(plain, body, match.start(), rf"[^;{{}}()]*?\b{name}\s*(?=\()")
    if primary is None or "," in primary["parameters"]:
        return []
    declared, _, _ = primary["parameters"].partition("=")
    parameter = declared.split()[-1]
    condition = f"std::enable_if_t<({parameter} == ({special['arguments'].strip()})), int> = 0"
    head = f"template <{primary['parameters']}, {condition}> {special['before']}{special['name']}"
    excluded = f", std::enable_if_t<({parameter} != ({special['arguments'].strip()})), int> = 0"
    return [Edit(match.start(), special.end(), head), Edit(primary.end("parameters"), primary.end("parameters"), excluded)]


def initialise_arrays(plain: str, start: int, end: int) -> list[Edit]:
    """The initial values of the arrays of a class that has a constexpr constructor."""
    head = CLASS_NAME.search(plain, max(plain.rfind(mark, 0, start - 1) for mark in ";{}") + 1, start - 1)
    if head is None or not re.search(rf"\bconstexpr\b[^;{{}}()]*\b{head[1]}\s*\(", plain[start:end]):
        return []
    members = [match for match in ARRAY_MEMBER.finditer(plain, start - 1, end) if is_directly_inside(plain, start, match.end())]
    return [Edit(match.end(), match.end(), " = {}") for match in members]


def find_primary(plain: str, start: int, end: int, rest: str) -> re.Match[str] | None:
    """The last template before a specialisation whose declaration continues as `rest`."""
    matches = [match for match in re.finditer(PARAMETERS + rest, plain[:end]) if match.start() >= start and match["parameters"].strip()]
    return matches[-1] if matches else None


def merge_primaries(edits: list[Edit]) -> list[Edit]:
    """One insertion per primary template: each specialisation excludes another argument, but an unused parameter is added once."""
    inserted: dict[int, str] = {}
    for edit in edits:
        if edit.start == edit.end and edit.text not in inserted.get(edit.start, ""):
            inserted[edit.start] = inserted.get(edit.start, "") + edit.text
    return [edit for edit in edits if edit.start != edit.end] + [Edit(at, at, text) for at, text in inserted.items()]
