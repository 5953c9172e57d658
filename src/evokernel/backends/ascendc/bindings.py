"""The functions that a bind offers to Python, read off its C++."""

from __future__ import annotations

import re
from typing import NamedTuple

from evokernel.backends.ascendc.source_parser import code, split

MODULE = re.compile(r"\bPYBIND11_MODULE\s*\([^)]*\)\s*\{")
DEFINED = re.compile(r'\.\s*def\s*\(\s*"(\w+)"\s*,\s*(?:&?\s*([\w:]+)|(\[[^\]]*\]\s*\(([^)]*)\)))')
KINDS = (
    ("tensor", re.compile(r"\bTensor\b(?!List)")),
    ("ints", re.compile(r"\bIntArrayRef\b|vector\s*<\s*int64_t\s*>|ArrayRef\s*<\s*int64_t\s*>")),
    ("bool", re.compile(r"\bbool\b")),
    ("float", re.compile(r"\b(?:double|float)\b")),
    ("int", re.compile(r"\b(?:u?int\d*_t|int|long|size_t)\b")),
)
OPTIONAL = re.compile(r"\boptional\s*<")


class Parameter(NamedTuple):
    """One parameter of a bound function."""

    kind: str
    """`tensor`, `int`, `float`, `bool`, `ints` or `other`."""
    is_optional: bool
    name: str = ""


class Bound(NamedTuple):
    """A function by the name Python knows."""

    name: str
    parameters: tuple[Parameter, ...]


def bound_functions(text: str) -> dict[str, Bound]:
    """What PYBIND11_MODULE defines, by name."""
    plain = code(text)
    module = MODULE.search(plain)
    if module is None:
        return {}
    found = {}
    for match in DEFINED.finditer(plain, module.end()):
        listed = match[4] if match[3] else declared(plain, match[2].rsplit("::", 1)[-1])
        found[match[1]] = Bound(match[1], tuple(parameter(part) for part in split(listed)))
    return found


def declared(plain: str, function: str) -> str:
    """The parameter list of a function that the text defines."""
    match = re.search(rf"\b{re.escape(function)}\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(?:const\s*)?\{{", plain)
    return match[1] if match else ""


def parameter(text: str) -> Parameter:
    """Its kind and its name, from how it is declared."""
    kind = next((name for name, pattern in KINDS if pattern.search(text)), "other")
    named = re.search(r"(\w+)\s*$", text.partition("=")[0])
    return Parameter(kind, OPTIONAL.search(text) is not None, named[1] if named else "")
