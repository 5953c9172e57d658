"""Parses a candidate as an operator project: one file in three parts, a folder, or the six parts of MultiKernelBench."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.entry import ENTRY, OP, TYPES, kernel_declaration
from evokernel.backends.ascendc.source_parser import KernelEntry
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.records import Signature

SINGLE_FILE = "kernel.asc"
HEADER, HOST, KERNEL = PARTS = ("tiling.h", "op_host.cpp", "op_kernel.cpp")
PART_MARKER = re.compile(r"^[ \t]*//[ \t]*file:[ \t]*(\S+)[ \t]*\r?\n?", re.MULTILINE)
SOURCE_SUFFIXES, HEADER_SUFFIXES = (".cpp", ".cc", ".cxx"), (".h", ".hpp", ".hh")
CallArgument = tuple[str | float, ...]
"""One argument of a bound function: ("tensor", 0), ("number", 1), ("int", 3), ("float", 0.5), ("bool", True) or ("absent",)."""


@dataclass(frozen=True)
class Project:
    """The sources of one operator and the properties parsed from them."""

    op: str
    """Operator type, such as `KernelCustom`."""
    entry: str
    """Kernel function, such as `kernel_custom`."""
    parameter_count: int
    """Number of parameters of the kernel function."""
    files: dict[str, str]
    """Source text by path."""
    kernel_file: str
    """Path of the file with the kernel function."""
    host_files: tuple[str, ...]
    """Paths of the host sources."""
    tiling_header: str
    """Path of the tiling header that the kernel needs but does not include; "" if there is none."""
    tiling_struct: str
    """C++ name of the struct that GET_TILING_DATA fills; "" if there is none."""
    dtypes: dict[str, str]
    """C++ type of every input and output by its upper-case name, for the DTYPE_ macros."""
    bind_source: str = ""
    """C++ source of the PyTorch binding; "" if the verifier calls the operator directly."""
    bound_function: str = ""
    """Function of the binding that the model calls."""
    call_arguments: tuple[CallArgument, ...] = ()
    """Arguments of that call: tensors by their index among inputs and parameters, numbers by their index among the scalars."""


def parse_project(files: Mapping[str, str], signature: Signature) -> Project:
    """Parse the files of a candidate."""
    if not any(text.strip() for text in files.values()):
        raise CandidateError(
            "no_code", f"{SINGLE_FILE} is empty: {format_instructions()}" if files else f"no file: {format_instructions()}"
        )
    if len(files) == 1:
        [(name, text)] = files.items()
        if name.endswith(".txt"):
            from evokernel.backends.ascendc.multikernelbench_format import parse_project as read_six

            return read_six(text, signature)
        return parse_single_file(text, signature)
    return parse_folder(files, signature)


def format_instructions() -> str:
    """One line that says how to write a candidate."""
    return "write three parts, each after a separate line: " + ", ".join(f"`// file: {part}`" for part in PARTS)


def parse_single_file(text: str, signature: Signature) -> Project:
    """Parse one file in three parts, whose names follow from the signature."""
    files = split_parts(text)
    if missing := [part for part in PARTS if not files.get(part, "").strip()]:
        raise CandidateError("no_code", f"{', '.join(missing)} missing: {format_instructions()}")
    if source_parser.find_operators(files[HOST]) != [OP]:
        there = ", ".join(source_parser.find_operators(files[HOST])) or "no operator"
        raise CandidateError("symbol", f"{HOST} must define the operator {OP} and end with OP_ADD({OP}); OP_ADD names {there}")
    expected_parameters = len(signature.inputs) + len(signature.params) + len(signature.outputs) + 2
    entries = [entry for entry in source_parser.find_kernel_entries(files[KERNEL]) if entry.name == ENTRY]
    if not entries or entries[0].parameters != expected_parameters or not entries[0].has_c_linkage:
        raise CandidateError(
            "symbol",
            f"{KERNEL} must define the kernel function exactly like this:\n{kernel_declaration(signature)}"
            f"{describe_entry_mismatch(files[KERNEL], expected_parameters)}",
        )
    return assemble_project(files, signature, KERNEL, (HOST,), OP, entries[0])


def describe_entry_mismatch(kernel: str, expected_parameters: int) -> str:
    """Describe the kernel function that the file defines instead."""
    entries = source_parser.find_kernel_entries(kernel)
    if not entries:
        return "\nThe file has no function with __global__ and __aicore__."
    entry = next((entry for entry in entries if entry.name == ENTRY), entries[0])
    if entry.name != ENTRY:
        return f"\nThe file defines {entry.name} instead."
    return (
        f"\nThe file defines it with {entry.parameters} parameters, not {expected_parameters}."
        if entry.parameters != expected_parameters
        else '\nThe definition lacks extern "C".'
    )


def split_parts(text: str) -> dict[str, str]:
    """Split one file into its parts, by name; the text of each part is unchanged."""
    marks = list(PART_MARKER.finditer(text))
    parts: dict[str, str] = {}
    for mark, following in zip(marks, [*marks[1:], None]):
        name = mark[1]
        if name in parts:
            raise CandidateError("no_code", f"two parts have the name {name}: {format_instructions()}")
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise CandidateError("no_code", f"{name} is not a valid name of a part: {format_instructions()}")
        parts[name] = text[mark.end() : following.start() if following else len(text)]
    return parts


def parse_folder(files: Mapping[str, str], signature: Signature) -> Project:
    """Parse several files; the role of each follows from its text."""
    sources = {
        name: text
        for name, text in files.items()
        if name.endswith((*SOURCE_SUFFIXES, *HEADER_SUFFIXES)) and not source_parser.is_unused_source(text)
    }
    kernels = {name: entries for name, text in sources.items() if (entries := source_parser.find_kernel_entries(text))}
    hosts = tuple(
        name
        for name in sorted(sources)
        if name.endswith(SOURCE_SUFFIXES) and name not in kernels and source_parser.is_host_source(sources[name])
    )
    operators = [operator for name in sorted(sources) for operator in source_parser.find_operators(sources[name])]
    if not kernels:
        raise CandidateError("no_code", 'no file has a kernel: define extern "C" __global__ __aicore__ void name(GM_ADDR ...)')
    if not operators:
        raise CandidateError("no_code", "no file has an operator: define a class derived from OpDef in a host file and pass it to OP_ADD")
    op, kernel, entry = match_operator_and_kernel(operators, kernels)
    return assemble_project(sources, signature, kernel, hosts, op, entry)


def match_operator_and_kernel(operators: Sequence[str], kernels: Mapping[str, Sequence[KernelEntry]]) -> tuple[str, str, KernelEntry]:
    """Find the operator, the file of its kernel, and the kernel whose name follows from the operator type."""
    for op in operators:
        for name, entries in kernels.items():
            for entry in entries:
                if entry.name == source_parser.to_snake_case(op):
                    return op, name, entry
    there = ", ".join(entry.name for entries in kernels.values() for entry in entries)
    raise CandidateError(
        "symbol",
        f"the kernel function of {operators[0]} must have the name {source_parser.to_snake_case(operators[0])}; the files define {there}",
    )


def assemble_project(
    files: Mapping[str, str], signature: Signature, kernel: str, hosts: tuple[str, ...], op: str, entry: KernelEntry
) -> Project:
    """Create a Project with the properties parsed from its sources."""
    sources = dict(files)
    if not entry.has_c_linkage:
        raise CandidateError(
            "symbol", f'the kernel function needs C linkage: write extern "C" __global__ __aicore__ void {entry.name}(...)'
        )
    return Project(
        op=op,
        entry=entry.name,
        parameter_count=entry.parameters,
        tiling_header=ensure_tiling_header(sources, kernel),
        files=sources,
        kernel_file=kernel,
        host_files=hosts,
        tiling_struct=source_parser.find_tiling_class(sources.values(), op),
        dtypes=resolve_dtypes(source_parser.parse_op_definition(sources.values()), signature),
    )


def ensure_tiling_header(files: dict[str, str], kernel: str) -> str:
    """The tiling header that the kernel does not include; "" if there is none.

    If the tiling classes are in several files, or in a file with other code, this adds a header with the classes alone to `files`: CANN
    also shows the kernel nothing else.
    """
    visible_files = {kernel} | source_parser.included_files(kernel, files)
    having = [
        name
        for name in sorted(files)
        if name not in visible_files and source_parser.TILING_CLASS.search(source_parser.strip_inactive_code(files[name]))
    ]
    if not having:
        return ""
    if len(having) == 1 and not source_parser.included_files(having[0], files) and source_parser.is_tiling_only(files[having[0]]):
        return having[0]
    header_name = str(PurePosixPath(having[0]).with_name("tiling_structs.h"))
    files[header_name] = source_parser.tiling_structs_header(having, files)
    return header_name


def resolve_dtypes(definition: source_parser.OpDefinition, signature: Signature) -> dict[str, str]:
    """C++ types of inputs and outputs, by upper-case name.

    The n-th types of an OpDef belong together, so this takes the column that matches the signature. Without such a column each tensor
    has the type of the signature if the OpDef lists it, else the first listed type.
    """
    input_types = [TYPES[tensor.dtype][0] for tensor in (*signature.inputs, *signature.params)]
    output_types = [TYPES[tensor.dtype][0] for tensor in signature.outputs]
    pairs = [
        *zip_longest(definition.inputs, input_types[: len(definition.inputs)]),
        *zip_longest(definition.outputs, output_types[: len(definition.outputs)]),
    ]
    columns = range(max((len(tensor.types) for tensor, _ in pairs), default=0))
    fitting = [n for n in columns if all(own is None or (n < len(tensor.types) and tensor.types[n] == own) for tensor, own in pairs)]
    kinds = dict(TYPES.values())
    resolved = {}
    for tensor, own in pairs:
        if fitting and fitting[0] < len(tensor.types):
            own = tensor.types[fitting[0]]
        elif own is None or (tensor.types and own not in tensor.types):
            own = tensor.types[0] if tensor.types else ""
        resolved[tensor.name.upper()] = kinds.get(own, "float")
    return resolved
