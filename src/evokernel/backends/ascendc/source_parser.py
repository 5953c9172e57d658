"""What the C++ of an operator project says about itself: kernels, operators, tiling classes, element types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from evokernel.core.c_tokens import tokenize

OPERATOR = re.compile(r"\bOP_ADD\s*\(\s*(\w+)")
REGISTERED = re.compile(r"\bREGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
DEFAULT = re.compile(r"\bREGISTER_TILING_DEFAULT\s*\(\s*([\w:]+)\s*\)")
TILING = re.compile(r"\bBEGIN_TILING_DATA_DEF\s*\(\s*(\w+)\s*\).*?\bEND_TILING_DATA_DEF\b\s*;?", re.DOTALL)
FIELD = re.compile(r"\bTILING_DATA_FIELD_DEF_STRUCT\s*\(\s*(?:\w+::)*(\w+)")
COUNTED = re.compile(r"(\bTILING_DATA_FIELD_DEF_ARR\s*\(\s*[\w:\s]+,)([^,]+)(,)")
DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)(.*)")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
CONTEXT = r"\bgert::(?:Tiling|TilingParse|InferShape|InferDataType)Context\b"
HOST = re.compile(rf"\bOP_ADD\s*\(|:\s*public\s+(?:ops::)?OpDef\b|\bIMPL_OP\w*\s*\(|{CONTEXT}")
LAUNCHER = re.compile(r'#\s*include\s*["<](?:opdev|aclnn_kernels|aclnn)/')
"""Functions that CANN calls operators by; the twin has its own."""
SHAPES = re.compile(r"\bIMPL_OP(?:_INFERSHAPE|_INFERDATATYPE)?\s*\(")
TILES = re.compile(r"\bOP_ADD\s*\(|\bOpDef\b|\b[Tt]iling|Tiling\b|__aicore__")
SCOPE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{|[{}]")
PARAMETER = re.compile(r'\b(Input|Output|Attr)\s*\(\s*"(\w+)"\s*\)')
TYPED = re.compile(r"\.\s*DataType(?:List)?\s*\(\s*\{([^}]*)\}")


LONGEST = 400
"""Characters of what stands before a kernel's name, about; texts are written by others, and looking must end."""


class Entry(NamedTuple):
    """A kernel's function."""

    name: str
    parameters: int
    has_c_linkage: bool


class Tensor(NamedTuple):
    """An input or output of an OpDef."""

    name: str
    types: tuple[str, ...]
    """As ge::DataType calls them; none where the text does not list them."""


class Definition(NamedTuple):
    """What an OpDef declares, in order."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: tuple[str, ...]


@lru_cache(maxsize=64)
def code(text: str) -> str:
    """The text without its comments and what stands after `#if 0`; lines stay where they are."""
    plain = "".join(blank(token.text) if token.kind == "comment" else token.text for token in tokenize(text))
    made: list[str] = []
    depth, dead = 0, 0  # of #if; of the one that is off
    for line in plain.splitlines(keepends=True):
        said = DIRECTIVE.match(line)
        word, rest = (said[1], said[2].strip()) if said else ("", "")
        depth += word.startswith("if")
        if not dead and (word, rest) == ("if", "0"):
            dead = depth
        is_frame = bool(word) and depth == dead
        made.append(blank(line) if dead and not is_frame else line)
        if is_frame and word in ("else", "elif", "endif"):
            dead = 0
        depth -= word == "endif"
    return "".join(made)


def blank(text: str) -> str:
    """As many blanks, on as many lines."""
    return re.sub(r"[^\n]", " ", text)


def snake(operator: str) -> str:
    """The name of an operator's files and kernel: `AveragePooling1dCustom` is `average_pooling1d_custom`."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", operator)
    return parted.lower()


def entries(text: str) -> list[Entry]:
    """The kernels that a text defines; templates are none."""
    plain = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", code(text), flags=re.MULTILINE)
    found = []
    for match in re.finditer(r"\b__global__\b", plain):
        start = max(match.start() - LONGEST, *(plain.rfind(mark, 0, match.start()) + 1 for mark in ";}{"))
        head = re.match(r"[^;{}()]*\b(\w+)\s*\(([^(){}]*)\)\s*\{", plain[start : match.end() + 10 * LONGEST])
        if head is None or re.search(r"\btemplate\b", head[0]):
            continue
        opened = re.search(r'extern\s*"C"\s*\{', plain[:start]) is not None
        found.append(Entry(head[1], arguments(head[2]), opened or re.search(r'extern\s*"C"', head[0]) is not None))
    return found


def arguments(listed: str) -> int:
    """How many parameters a list has."""
    return 0 if listed.strip() in ("", "void") else len(split(listed))


def split(listed: str) -> list[str]:
    """The parts of a list, at commas that are in no brackets."""
    parts, depth = [""], 0
    for mark in listed:
        depth += mark in "<([{"
        depth -= mark in ">)]}"
        if mark == "," and not depth:
            parts.append("")
        else:
            parts[-1] += mark
    return [part.strip() for part in parts if part.strip()]


def operators(text: str) -> list[str]:
    """What OP_ADD names."""
    return OPERATOR.findall(code(text))


def is_host(text: str) -> bool:
    """Whether this belongs to the host side."""
    return HOST.search(code(text)) is not None


def is_aside(text: str) -> bool:
    """Whether this is no part of the operator for the twin: how programs call it, or the shapes of its results for graphs."""
    plain = code(text)
    return LAUNCHER.search(plain) is not None or (SHAPES.search(plain) is not None and TILES.search(plain) is None)


def scope(plain: str, at: int) -> str:
    """The namespaces around a place: `optiling::`."""
    open_: list[str] = []
    for match in SCOPE.finditer(plain, 0, at):
        if match[0] == "}":
            if open_:
                open_.pop()
        else:
            open_.append(match[1] or "")
    return "".join(f"{name}::" for name in open_ if name)


def tiling_class(texts: Iterable[str], operator: str) -> str:
    """The C++ name of the tiling struct that belongs to an operator; "" when none is registered."""
    found: dict[str, str] = {}
    for text in texts:
        plain = code(text)
        for match in REGISTERED.finditer(plain):
            name = match[2] if "::" in match[2] else scope(plain, match.start()) + match[2]
            found.setdefault(match[1], name)
        for match in DEFAULT.finditer(plain):
            found.setdefault(operator, match[1])
    return found.get(operator) or next(iter(found.values()), "")


def reached(start: str, files: Mapping[str, str]) -> set[str]:
    """The project's files that one of them includes, directly or not. Folders are not told apart: the compiler looks in all of them."""
    by_name: dict[str, str] = {}
    for name in files:
        by_name.setdefault(PurePosixPath(name).name, name)
    found, waiting = set[str](), [start]
    while waiting:
        for included in INCLUDE.findall(code(files[waiting.pop()])):
            own = by_name.get(PurePosixPath(included).name)
            if own is not None and own not in found:
                found.add(own)
                waiting.append(own)
    return found


def definition(texts: Iterable[str]) -> Definition:
    """Inputs, outputs and attributes of the OpDef in these texts."""
    found: dict[str, dict[str, Tensor]] = {"Input": {}, "Output": {}, "Attr": {}}
    for text in texts:
        plain = code(text)
        for match in PARAMETER.finditer(plain):
            listed = TYPED.search(plain, match.end(), max(plain.find(";", match.end()), match.end()))
            types = tuple(re.findall(r"\bDT_\w+", listed[1])) if listed else ()
            found[match[1]].setdefault(match[2], Tensor(match[2], types))
    return Definition(tuple(found["Input"].values()), tuple(found["Output"].values()), tuple(found["Attr"]))


def is_tiling_only(text: str) -> bool:
    """Whether a header has nothing but tiling classes."""
    plain = REGISTERED.sub("", TILING.sub("", code(text)))
    return not re.sub(r"^[ \t]*#.*$|\bnamespace\s+[\w:]+|[\s{};]", "", plain, flags=re.MULTILINE)


def structs(names: Iterable[str], files: Mapping[str, str]) -> str:
    """A header with the tiling classes that these files define, for the kernel to see; a class that another has as a field comes before."""
    found: dict[str, tuple[str, str]] = {}
    for name in names:
        plain = code(files[name])
        for match in TILING.finditer(plain):
            found.setdefault(match[1], (scope(plain, match.start()), match[0]))
    every = "\n".join(code(text) for text in files.values())
    parts, done = ['#pragma once\n#include "register/tilingdata_base.h"\n'], set[str]()

    def write(name: str) -> None:
        if name in done or name not in found:
            return
        done.add(name)
        space, text = found[name]
        for field in FIELD.finditer(text):
            write(field[1])
        spaces = space.split("::")[:-1]
        plain = COUNTED.sub(lambda field: f"{field[1]}{worked_out(field[2], every)}{field[3]}", text)
        parts.append("".join(f"namespace {space} {{\n" for space in spaces) + plain.rstrip("; \n") + ";\n" + "}\n" * len(spaces))

    for name in found:
        write(name)
    return "".join(parts)


def worked_out(expression: str, text: str, deep: int = 4) -> str:
    """The length of an array with what the text says of the constants in it; their names mean other things in a kernel."""

    def one(word: re.Match[str]) -> str:
        named = rf"\b(?:constexpr|const)\b[\w:\s]*\s{word[0]}\s*(?:=\s*|\{{)([^;}}]+)\}}?;|^[ \t]*#[ \t]*define[ \t]+{word[0]}[ \t]+(.+)$"
        known = re.search(named, text, re.MULTILINE)
        return f"({worked_out((known[1] or known[2]).strip(), text, deep - 1)})" if known else word[0]

    return re.sub(r"(?<![\w:])[A-Za-z_]\w*", one, expression) if deep else expression
