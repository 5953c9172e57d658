"""Parses a candidate as an operator project: one file in three parts, a folder, or the six parts of MultiKernelBench."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from evokernel.backends.ascendc import multikernelbench_format, source_parser
from evokernel.backends.ascendc.bindings import MODULE, parse_bound_functions
from evokernel.backends.ascendc.entry import ENTRY, OP, kernel_declaration
from evokernel.backends.ascendc.model_call import parse_model_call
from evokernel.backends.ascendc.project import Project, assemble_project, match_operator_and_kernel
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.records import Signature

SINGLE_FILE = "kernel.asc"
MODEL_SUFFIX, MODEL_CLASS = ".py", re.compile(r"^class\s+ModelNew\b", re.MULTILINE)
HEADER, HOST, KERNEL = PARTS = ("tiling.h", "op_host.cpp", "op_kernel.cpp")
PART_MARKER = re.compile(r"^[ \t]*//[ \t]*file:[ \t]*(\S+)[ \t]*\r?\n?", re.MULTILINE)
SOURCE_SUFFIXES, HEADER_SUFFIXES = (".cpp", ".cc", ".cxx"), (".h", ".hpp", ".hh")


def parse_project(files: Mapping[str, str], signature: Signature) -> Project:
    """Parse the files of a candidate."""
    if not any(text.strip() for text in files.values()):
        raise CandidateError(
            "no_code", f"{SINGLE_FILE} is empty: {format_instructions()}" if files else f"no file: {format_instructions()}"
        )
    if len(files) == 1:
        [(name, text)] = files.items()
        if name.endswith(".txt"):
            return multikernelbench_format.parse_project(text, signature)
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
    """Parse several files; the role of each follows from its text.

    With a binding (`PYBIND11_MODULE`) and a Python file with a `ModelNew` that calls it, the operator is called through the binding.
    """
    sources = {
        name: text
        for name, text in files.items()
        if name.endswith((*SOURCE_SUFFIXES, *HEADER_SUFFIXES)) and not source_parser.is_unused_source(text)
    }
    kernels = {name: entries for name, text in sources.items() if (entries := source_parser.find_kernel_entries(text))}
    hosts = tuple(
        name for name in sorted(source_parser.find_host_sources(sources)) if name.endswith(SOURCE_SUFFIXES) and name not in kernels
    )
    operators = [operator for name in sorted(sources) for operator in source_parser.find_operators(sources[name])]
    if not kernels:
        raise CandidateError("no_code", 'no file has a kernel: define extern "C" __global__ __aicore__ void name(GM_ADDR ...)')
    if not operators:
        raise CandidateError("no_code", "no file has an operator: define a class derived from OpDef in a host file and pass it to OP_ADD")
    op, kernel, entry = match_operator_and_kernel(operators, kernels)
    bindings = [name for name in sources if name not in kernels and MODULE.search(source_parser.strip_inactive_code(sources[name]))]
    models = [text for name, text in sorted(files.items()) if name.endswith(MODEL_SUFFIX) and MODEL_CLASS.search(text)]
    if not bindings or not models:
        return assemble_project(sources, signature, kernel, hosts, op, entry)
    bind_source = sources.pop(bindings[0])
    call = parse_model_call(models[0], parse_bound_functions(bind_source), signature)
    project = assemble_project(sources, signature, kernel, hosts, op, entry, call.arguments)
    return replace(project, bind_source=bind_source, bound_function=call.function, call_arguments=call.arguments)
