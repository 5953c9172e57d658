"""Parses the C++ source of a binding for the functions that it exports to Python."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
DEFAULT = re.compile(r"\barg\s*\(\s*\"(\w+)\"\s*\)\s*(?:=\s*(.+))?$|\"(\w+)\"_a\s*(?:=\s*(.+))?$", re.DOTALL)
"""`py::arg("dim") = -1`, the only form of a default value that Python callers can use."""
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class Parameter(NamedTuple):
    """One parameter of a bound function."""

    kind: str
    """`tensor`, `tensors`, `int`, `float`, `bool`, `ints` or `other`."""
    is_optional: bool
    name: str = ""
    default: tuple[str, float] | None = None
    """A number that callers may leave out, with its kind."""


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
        parameters = [parse_parameter(part) for part in split_at_commas(parameter_list)]
        functions[match[1]] = BoundFunction(match[1], add_defaults(parameters, definition_arguments(plain, match.start())))
    return functions


def definition_arguments(source: str, start: int) -> list[str]:
    """The arguments of the call of `def` that begins at a position."""
    opening = source.index("(", start)
    depth = 0
    for index in range(opening, len(source)):
        depth += {"(": 1, ")": -1}.get(source[index], 0)
        if depth == 0:
            return [argument.strip() for argument in split_at_commas(source[opening + 1 : index])]
    return []


def add_defaults(parameters: Sequence[Parameter], arguments: Sequence[str]) -> tuple[Parameter, ...]:
    """Add names and default numbers of `py::arg` to the parameters, which they describe in order."""
    described = [match for argument in arguments if (match := DEFAULT.search(argument))]
    if len(described) != len(parameters):
        return tuple(parameters)
    return tuple(add_default(parameter, match[1] or match[3], match[2] or match[4]) for parameter, match in zip(parameters, described))


def add_default(parameter: Parameter, name: str, text: str | None) -> Parameter:
    """Add a name and, if the text is one, a default number."""
    parameter = parameter._replace(name=name)
    text = (text or "").strip().rstrip("fFlLuU")
    if text in ("true", "false"):
        return parameter._replace(default=("bool", text == "true"))
    if not NUMBER.fullmatch(text):
        return parameter
    is_float = parameter.kind == "float" or any(character in text for character in ".eE")
    return parameter._replace(default=("float", float(text)) if is_float else ("int", int(text)))


def parameter_list_of(source: str, function: str) -> str:
    """The parameter list of a function defined in the source."""
    match = re.search(rf"\b{re.escape(function)}\s*\(([^()]*(?:\([^()]*\)[^()]*)*)\)\s*(?:const\s*)?\{{", source)
    return match[1] if match else ""


def parse_parameter(text: str) -> Parameter:
    """Kind and name of a parameter, from its declaration."""
    kind = next((name for name, pattern in KINDS if pattern.search(text)), "other")
    name_match = re.search(r"(\w+)\s*$", text.partition("=")[0])
    return Parameter(kind, OPTIONAL.search(text) is not None, name_match[1] if name_match else "")
