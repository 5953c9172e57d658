"""What the C++ of an operator project says about itself: kernels, operators, tiling classes, element types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from evokernel.core.c_tokens import tokens

OPERATOR = re.compile(r"\bOP_ADD\s*\(\s*(\w+)")
REGISTERED = re.compile(r"\bREGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
DEFAULT = re.compile(r"\bREGISTER_TILING_DEFAULT\s*\(\s*([\w:]+)\s*\)")
TILING = re.compile(r"\bBEGIN_TILING_DATA_DEF\s*\(\s*(\w+)\s*\).*?\bEND_TILING_DATA_DEF\b\s*;?", re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
CONTEXT = r"\bgert::(?:Tiling|TilingParse|InferShape|InferDataType)Context\b"
HOST = re.compile(rf"\bOP_ADD\s*\(|:\s*public\s+(?:ops::)?OpDef\b|\bIMPL_OP\w*\s*\(|{CONTEXT}")
LAUNCHER = re.compile(r'#\s*include\s*["<](?:opdev|aclnn_kernels|aclnn)/')
"""Functions that CANN calls operators by; the twin has its own."""
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
    """The text without its comments; lines stay where they are."""
    return "".join(re.sub(r"[^\n]", " ", token.text) if token.kind == "comment" else token.text for token in tokens(text))


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
    plain = code(text)
    return HOST.search(plain) is not None and LAUNCHER.search(plain) is None


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


def structs(text: str) -> str:
    """A header with the tiling classes that a text defines, for the kernel to see."""
    plain = code(text)
    parts = ['#pragma once\n#include "register/tilingdata_base.h"\n']
    for match in TILING.finditer(plain):
        spaces = scope(plain, match.start()).split("::")[:-1]
        parts.append("".join(f"namespace {space} {{\n" for space in spaces) + match[0].rstrip(";") + ";\n" + "}\n" * len(spaces))
    return "".join(parts)
