"""Parses the C++ source of a binding for the functions that it exports to Python."""

from __future__ import annotations

import re
from typing import NamedTuple

from evokernel.backends.ascendc.source_parser import split_at_commas, strip_inactive_code

MODULE = re.compile(r"\bPYBIND11_MODULE\s*\([^)]*\)\s*\{")
DEFINED = re.compile(r'\.\s*def\s*\(\s*"(\w+)"\s*,\s*(?:&?\s*([\w:]+)|(\[[^\]]*\]\s*\(([^)]*)\)))')
KINDS = (
    ("tensors", re.compile(r"\bTensorList\b|(?:vector|ArrayRef)\s*<\s*(?:\w+::)*Tensor\s*>")),
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
    """`tensor`, `tensors`, `int`, `float`, `bool`, `ints` or `other`."""
    is_optional: bool
    name: str = ""


class BoundFunction(NamedTuple):
    """A bound function, by its Python name."""

    name: str
    parameters: tuple[Parameter, ...]


def parse_bound_functions(text: str) -> dict[str, BoundFunction]:
    """The functions that PYBIND11_MODULE defines, by name."""
    plain = strip_inactive_code(text)
    module = MODULE.search(plain)
    if module is None:
        return {}
    functions = {}
    for match in DEFINED.finditer(plain, module.end()):
        parameter_list = match[4] if match[3] else parameter_list_of(plain, match[2].rsplit("::", 1)[-1])
        functions[match[1]] = BoundFunction(match[1], tuple(parse_parameter(part) for part in split_at_commas(parameter_list)))
    return functions


def parameter_list_of(source: str, function: str) -> str:
    """The parameter list of a function defined in the source."""
    match = re.search(rf"\b{re.escape(function)}\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(?:const\s*)?\{{", source)
    return match[1] if match else ""


def parse_parameter(text: str) -> Parameter:
    """Kind and name of a parameter, from its declaration."""
    kind = next((name for name, pattern in KINDS if pattern.search(text)), "other")
    name_match = re.search(r"(\w+)\s*$", text.partition("=")[0])
    return Parameter(kind, OPTIONAL.search(text) is not None, name_match[1] if name_match else "")
