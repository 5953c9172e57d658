"""Parses the C++ sources of an operator project for kernels, operators, tiling classes and element types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from evokernel.core.c_tokens import tokenize

OP_ADD = re.compile(r"\bOP_ADD\s*\(\s*(\w+)")
REGISTER_TILING = re.compile(r"\bREGISTER_TILING_DATA_CLASS\s*\(\s*(\w+)\s*,\s*([\w:]+)\s*\)")
REGISTER_TILING_DEFAULT = re.compile(r"\bREGISTER_TILING_DEFAULT\s*\(\s*([\w:]+)\s*\)")
TILING_CLASS = re.compile(r"\bBEGIN_TILING_DATA_DEF\s*\(\s*(\w+)\s*\).*?\bEND_TILING_DATA_DEF\b\s*;?", re.DOTALL)
STRUCT_FIELD = re.compile(r"\bTILING_DATA_FIELD_DEF_STRUCT\s*\(\s*(?:\w+::)*(\w+)")
ARRAY_FIELD = re.compile(r"(\bTILING_DATA_FIELD_DEF_ARR\s*\(\s*[\w:\s]+,)([^,]+)(,)")
DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(\w+)(.*)")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
HOST_CONTEXT = r"\bgert::(?:Tiling|TilingParse|InferShape|InferDataType)Context\b"
HOST_MARKER = re.compile(
    rf"\bOP_ADD\s*\(|:\s*public\s+(?:ops::)?OpDef\b|\bIMPL_OP\w*\s*\(|\bREGISTER_(?:OPS_)?TILING_TEMPLATE\s*\(|{HOST_CONTEXT}"
)
TILING_BASE = re.compile(r":\s*public\s+(?:\w+::)*\w*Tiling\w*")
METHOD_DEFINITION = re.compile(r"\b\w+::~?\w+\s*\([^;{}]*\)[^;{}]*\{")
LAUNCHER_INCLUDE = re.compile(r'#\s*include\s*["<](?:opdev|aclnn_kernels|aclnn)/')
"""Includes of files that call operators through CANN; the simulator calls them in another way."""
SHAPE_INFERENCE = re.compile(r"\bIMPL_OP(?:_INFERSHAPE|_INFERDATATYPE)?\s*\(")
TILING_MARKER = re.compile(r"\bOP_ADD\s*\(|\bOpDef\b|\b[Tt]iling|Tiling\b|__aicore__")
NAMESPACE_OR_BRACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{|[{}]")
OP_DEF_PARAMETER = re.compile(r'\b(Input|Output|Attr)\s*\(\s*"(\w+)"\s*\)')
OP_DEF_DTYPES = re.compile(r"\.\s*DataType(?:List)?\s*\(\s*\{([^}]*)\}")


MAX_HEAD_CHARS = 400
"""Approximate limit of the characters before a kernel's name, so that the search ends on any input."""


class KernelEntry(NamedTuple):
    """A kernel function."""

    name: str
    parameters: int
    has_c_linkage: bool


class OpDefTensor(NamedTuple):
    """An input or output of an OpDef."""

    name: str
    types: tuple[str, ...]
    """Names of ge::DataType; empty if the source does not list them."""


class OpDefinition(NamedTuple):
    """The declarations of an OpDef, in order."""

    inputs: tuple[OpDefTensor, ...]
    outputs: tuple[OpDefTensor, ...]
    attributes: tuple[str, ...]


@lru_cache(maxsize=64)
def strip_inactive_code(text: str) -> str:
    """The text with comments and `#if 0` blocks blanked out; line numbers do not change."""
    plain = "".join(blank_out(token.text) if token.kind == "comment" else token.text for token in tokenize(text))
    lines: list[str] = []
    depth, dead = 0, 0  # nesting of #if; nesting at the inactive #if 0
    for line in plain.splitlines(keepends=True):
        directive = DIRECTIVE.match(line)
        word, rest = (directive[1], directive[2].strip()) if directive else ("", "")
        depth += word.startswith("if")
        if not dead and (word, rest) == ("if", "0"):
            dead = depth
        is_frame = bool(word) and depth == dead
        lines.append(blank_out(line) if dead and not is_frame else line)
        if is_frame and word in ("else", "elif", "endif"):
            dead = 0
        depth -= word == "endif"
    return "".join(lines)


def blank_out(text: str) -> str:
    """Replace every character except newlines by a blank."""
    return re.sub(r"[^\n]", " ", text)


def to_snake_case(operator: str) -> str:
    """Name of the files and the kernel function of an operator: `AveragePooling1dCustom` is `average_pooling1d_custom`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", operator)
    return words.lower()


def find_kernel_entries(text: str) -> list[KernelEntry]:
    """The kernel functions that a source defines; templates do not count."""
    plain = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", "", strip_inactive_code(text), flags=re.MULTILINE)
    entries = []
    for match in re.finditer(r"\b__global__\b", plain):
        start = max(match.start() - MAX_HEAD_CHARS, *(plain.rfind(mark, 0, match.start()) + 1 for mark in ";}{"))
        head = re.match(r"[^;{}()]*\b(\w+)\s*\(([^(){}]*)\)\s*\{", plain[start : match.end() + 10 * MAX_HEAD_CHARS])
        if head is None or re.search(r"\btemplate\b", head[0]):
            continue
        in_extern_c_block = re.search(r'extern\s*"C"\s*\{', plain[:start]) is not None
        entries.append(
            KernelEntry(head[1], count_parameters(head[2]), in_extern_c_block or re.search(r'extern\s*"C"', head[0]) is not None)
        )
    return entries


def count_parameters(parameter_list: str) -> int:
    """Number of parameters in a parameter list."""
    return 0 if parameter_list.strip() in ("", "void") else len(split_at_commas(parameter_list))


def split_at_commas(text: str) -> list[str]:
    """Split a list at the commas outside brackets."""
    parts, depth = [""], 0
    for mark in text:
        depth += mark in "<([{"
        depth -= mark in ">)]}"
        if mark == "," and not depth:
            parts.append("")
        else:
            parts[-1] += mark
    return [part.strip() for part in parts if part.strip()]


def find_operators(text: str) -> list[str]:
    """Operators that the source registers with OP_ADD."""
    return OP_ADD.findall(strip_inactive_code(text))


def is_host_source(text: str) -> bool:
    """Whether a source is host code."""
    return HOST_MARKER.search(strip_inactive_code(text)) is not None


def find_host_sources(sources: Mapping[str, str]) -> set[str]:
    """Host code among these sources: also files with nothing but methods of a class that a host header declares."""
    hosts = {name for name, text in sources.items() if is_host_source(text)}
    headers = hosts | {name for name, text in sources.items() if TILING_BASE.search(strip_inactive_code(text))}
    includes = {name: included_files(name, sources) for name in sources}
    included = set().union(*includes.values())
    for name, text in sources.items():
        plain = strip_inactive_code(text)
        if name not in included and includes[name] & headers and METHOD_DEFINITION.search(plain) and "__aicore__" not in plain:
            hosts.add(name)
    return hosts


def is_unused_source(text: str) -> bool:
    """Whether the simulator does not need a source: code that calls the operator, or shape inference for graphs."""
    plain = strip_inactive_code(text)
    return LAUNCHER_INCLUDE.search(plain) is not None or (SHAPE_INFERENCE.search(plain) is not None and TILING_MARKER.search(plain) is None)


def enclosing_namespace(plain: str, at: int) -> str:
    """The namespaces around a position, such as `optiling::`."""
    open_: list[str] = []
    for match in NAMESPACE_OR_BRACE.finditer(plain, 0, at):
        if match[0] == "}":
            if open_:
                open_.pop()
        else:
            open_.append(match[1] or "")
    return "".join(f"{name}::" for name in open_ if name)


def is_at_file_scope(plain: str, at: int) -> bool:
    """Whether only namespaces enclose a position."""
    depth: list[bool] = []
    for match in NAMESPACE_OR_BRACE.finditer(plain, 0, at):
        if match[0] == "}":
            if depth:
                depth.pop()
        else:
            depth.append(bool(match[1]) or plain[: match.start()].rstrip().endswith(("namespace", 'extern "C"')))
    return all(depth)


def find_tiling_class(texts: Iterable[str], operator: str) -> str:
    """C++ name of the tiling struct of an operator; "" if none is registered."""
    class_by_operator: dict[str, str] = {}
    for text in texts:
        plain = strip_inactive_code(text)
        for match in REGISTER_TILING.finditer(plain):
            name = match[2] if "::" in match[2] else enclosing_namespace(plain, match.start()) + match[2]
            class_by_operator.setdefault(match[1], name)
        for match in REGISTER_TILING_DEFAULT.finditer(plain):
            class_by_operator.setdefault(operator, match[1])
    return class_by_operator.get(operator) or next(iter(class_by_operator.values()), "")


def included_files(start: str, files: Mapping[str, str]) -> set[str]:
    """Files of the project that a file includes, directly or indirectly. Folders are ignored, because the compiler searches all of them."""
    by_name: dict[str, str] = {}
    for name in files:
        by_name.setdefault(PurePosixPath(name).name, name)
    names, waiting = set[str](), [start]
    while waiting:
        for include in INCLUDE.findall(strip_inactive_code(files[waiting.pop()])):
            own = by_name.get(PurePosixPath(include).name)
            if own is not None and own not in names:
                names.add(own)
                waiting.append(own)
    return names


def parse_op_definition(texts: Iterable[str]) -> OpDefinition:
    """Inputs, outputs and attributes of the OpDef in these sources."""
    parameters: dict[str, dict[str, OpDefTensor]] = {"Input": {}, "Output": {}, "Attr": {}}
    for text in texts:
        plain = strip_inactive_code(text)
        for match in OP_DEF_PARAMETER.finditer(plain):
            dtype_list = OP_DEF_DTYPES.search(plain, match.end(), max(plain.find(";", match.end()), match.end()))
            types = tuple(re.findall(r"\bDT_\w+", dtype_list[1])) if dtype_list else ()
            parameters[match[1]].setdefault(match[2], OpDefTensor(match[2], types))
    return OpDefinition(tuple(parameters["Input"].values()), tuple(parameters["Output"].values()), tuple(parameters["Attr"]))


def is_tiling_only(text: str) -> bool:
    """Whether a header contains only tiling classes."""
    plain = REGISTER_TILING.sub("", TILING_CLASS.sub("", strip_inactive_code(text)))
    return not re.sub(r"^[ \t]*#.*$|\bnamespace\s+[\w:]+|[\s{};]", "", plain, flags=re.MULTILINE)


def tiling_structs_header(names: Iterable[str], files: Mapping[str, str]) -> str:
    """A header for the kernel with the tiling classes of these files. A class that is a field of another one comes first."""
    classes: dict[str, tuple[str, str]] = {}
    for name in names:
        plain = strip_inactive_code(files[name])
        for match in TILING_CLASS.finditer(plain):
            classes.setdefault(match[1], (enclosing_namespace(plain, match.start()), match[0]))
    every = "\n".join(strip_inactive_code(text) for text in files.values())
    parts, written_names = ['#pragma once\n#include "register/tilingdata_base.h"\n'], set[str]()

    def add_class(name: str) -> None:
        if name in written_names or name not in classes:
            return
        written_names.add(name)
        space, text = classes[name]
        for field in STRUCT_FIELD.finditer(text):
            add_class(field[1])
        spaces = space.split("::")[:-1]
        plain = ARRAY_FIELD.sub(lambda field: f"{field[1]}{resolve_array_length(field[2], every)}{field[3]}", text)
        parts.append("".join(f"namespace {space} {{\n" for space in spaces) + plain.rstrip("; \n") + ";\n" + "}\n" * len(spaces))

    for name in classes:
        add_class(name)
    return "".join(parts)


def resolve_array_length(expression: str, text: str, deep: int = 4) -> str:
    """Replace the constants in an array length by their values, because a kernel may not know their names."""

    def replace_constant(word: re.Match[str]) -> str:
        definition_pattern = (
            rf"\b(?:constexpr|const)\b[\w:\s]*\s{word[0]}\s*(?:=\s*|\{{)([^;}}]+)\}}?;|^[ \t]*#[ \t]*define[ \t]+{word[0]}[ \t]+(.+)$"
        )
        constant = re.search(definition_pattern, text, re.MULTILINE)
        return f"({resolve_array_length((constant[1] or constant[2]).strip(), text, deep - 1)})" if constant else word[0]

    return re.sub(r"(?<![\w:])[A-Za-z_]\w*", replace_constant, expression) if deep else expression
