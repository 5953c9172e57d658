"""A candidate as an operator project: our one file in three parts, a folder, or the six parts of MultiKernelBench."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.entry import ENTRY, OP, TYPES, declaration
from evokernel.backends.ascendc.source_parser import Entry
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.records import Signature

FILE = "kernel.asc"
HEADER, HOST, KERNEL = PARTS = ("tiling.h", "op_host.cpp", "op_kernel.cpp")
MARKER = re.compile(r"^[ \t]*//[ \t]*file:[ \t]*(\S+)[ \t]*\r?\n?", re.MULTILINE)
SOURCES, HEADERS = (".cpp", ".cc", ".cxx"), (".h", ".hpp", ".hh")
Passed = tuple[str | float, ...]
"""One argument of a bound function: ("tensor", 0), ("number", 1), ("int", 3), ("float", 0.5), ("bool", True) or ("absent",)."""


@dataclass(frozen=True)
class Project:
    """Sources of one operator, and what is known about them."""

    op: str
    """The operator's type, `KernelCustom`."""
    entry: str
    """The kernel's function, `kernel_custom`."""
    parameters: int
    """How many the kernel has."""
    files: dict[str, str]
    """Path to text."""
    kernel: str
    """The file with the entry."""
    hosts: tuple[str, ...]
    """Sources of the host side."""
    header: str
    """The tiling header that the kernel has to see although it does not include it; "" when there is none."""
    tiling: str
    """C++ name of the struct that GET_TILING_DATA fills; "" when there is none."""
    dtypes: dict[str, str]
    """C++ type of every input and output by its name in capitals, for the DTYPE_ macros."""
    bind: str = ""
    """C++ that a model calls the operator through; "" where the judge calls it directly."""
    function: str = ""
    """What the model calls."""
    call: tuple[Passed, ...] = ()
    """What it passes: tensors by their place among inputs and parameters, numbers by theirs among the signature's."""


def read(files: Mapping[str, str], signature: Signature) -> Project:
    """The project that a candidate's files make up."""
    if not any(text.strip() for text in files.values()):
        raise CandidateError("no_code", f"{FILE} is empty: {how()}" if files else f"no file: {how()}")
    if len(files) == 1:
        [(name, text)] = files.items()
        if name.endswith(".txt"):
            from evokernel.backends.ascendc.multikernelbench_format import read as read_six

            return read_six(text, signature)
        return ours(text, signature)
    return folder(files, signature)


def how() -> str:
    """How a candidate is written, in one line."""
    return "write three parts, each after a line of its own: " + ", ".join(f"`// file: {part}`" for part in PARTS)


def ours(text: str, signature: Signature) -> Project:
    """One file in three parts, with names that follow from the signature."""
    files = parts(text)
    if missing := [part for part in PARTS if not files.get(part, "").strip()]:
        raise CandidateError("no_code", f"{', '.join(missing)} missing: {how()}")
    if source_parser.operators(files[HOST]) != [OP]:
        there = ", ".join(source_parser.operators(files[HOST])) or "nothing"
        raise CandidateError("symbol", f"{HOST} must define the operator {OP} and end with OP_ADD({OP}); OP_ADD names {there}")
    wanted = len(signature.inputs) + len(signature.params) + len(signature.outputs) + 2
    found = [entry for entry in source_parser.entries(files[KERNEL]) if entry.name == ENTRY]
    if not found or found[0].parameters != wanted or not found[0].has_c_linkage:
        raise CandidateError(
            "symbol", f"{KERNEL} must define the kernel exactly so:\n{declaration(signature)}{told(files[KERNEL], wanted)}"
        )
    return assembled(files, signature, KERNEL, (HOST,), OP, found[0])


def told(kernel: str, wanted: int) -> str:
    """What the kernel's file has instead."""
    found = source_parser.entries(kernel)
    if not found:
        return "\nit has no function with __global__ and __aicore__"
    entry = next((entry for entry in found if entry.name == ENTRY), found[0])
    if entry.name != ENTRY:
        return f"\nit has {entry.name}"
    return f"\nit has {entry.parameters} parameters, not {wanted}" if entry.parameters != wanted else '\nit lacks extern "C"'


def parts(text: str) -> dict[str, str]:
    """The parts of one file, by name. Each keeps its text as it is."""
    marks = list(MARKER.finditer(text))
    found: dict[str, str] = {}
    for mark, following in zip(marks, [*marks[1:], None]):
        name = mark[1]
        if name in found:
            raise CandidateError("no_code", f"two parts are called {name}: {how()}")
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise CandidateError("no_code", f"{name} is no name for a part: {how()}")
        found[name] = text[mark.end() : following.start() if following else len(text)]
    return found


def folder(files: Mapping[str, str], signature: Signature) -> Project:
    """Several files: what each is, its text says."""
    kept = {name: text for name, text in files.items() if name.endswith((*SOURCES, *HEADERS)) and not source_parser.is_aside(text)}
    kernels = {name: found for name, text in kept.items() if (found := source_parser.entries(text))}
    hosts = tuple(name for name in sorted(kept) if name.endswith(SOURCES) and name not in kernels and source_parser.is_host(kept[name]))
    operators = [operator for name in sorted(kept) for operator in source_parser.operators(kept[name])]
    if not kernels:
        raise CandidateError("no_code", 'no kernel: a file must define extern "C" __global__ __aicore__ void name(GM_ADDR ...)')
    if not operators:
        raise CandidateError("no_code", "no operator: a host file must define a class with OpDef and name it in OP_ADD")
    op, kernel, entry = chosen(operators, kernels)
    return assembled(kept, signature, kernel, hosts, op, entry)


def chosen(operators: Sequence[str], kernels: Mapping[str, Sequence[Entry]]) -> tuple[str, str, Entry]:
    """The operator, the file with its kernel, and the kernel: the one whose name follows from the operator's."""
    for op in operators:
        for name, entries in kernels.items():
            for entry in entries:
                if entry.name == source_parser.snake(op):
                    return op, name, entry
    there = ", ".join(entry.name for entries in kernels.values() for entry in entries)
    raise CandidateError("symbol", f"the kernel of {operators[0]} must be called {source_parser.snake(operators[0])}; there is {there}")


def assembled(files: Mapping[str, str], signature: Signature, kernel: str, hosts: tuple[str, ...], op: str, entry: Entry) -> Project:
    """Everything that the texts say beyond their names."""
    kept = dict(files)
    if not entry.has_c_linkage:
        raise CandidateError("symbol", f'the kernel needs C linkage: extern "C" __global__ __aicore__ void {entry.name}(...)')
    return Project(
        op=op,
        entry=entry.name,
        parameters=entry.parameters,
        header=header(kept, kernel),
        files=kept,
        kernel=kernel,
        hosts=hosts,
        tiling=source_parser.tiling_class(kept.values(), op),
        dtypes=dtypes(source_parser.definition(kept.values()), signature),
    )


def header(files: dict[str, str], kernel: str) -> str:
    """The tiling header that the kernel does not include. Where the classes are in several files or among other things, a header is made of
    them alone: CANN shows the kernel nothing else either."""
    seen = {kernel} | source_parser.reached(kernel, files)
    having = [name for name in sorted(files) if name not in seen and source_parser.TILING.search(source_parser.code(files[name]))]
    if not having:
        return ""
    if len(having) == 1 and not source_parser.reached(having[0], files) and source_parser.is_tiling_only(files[having[0]]):
        return having[0]
    made = str(PurePosixPath(having[0]).with_name("tiling_structs.h"))
    files[made] = source_parser.structs(having, files)
    return made


def dtypes(definition: source_parser.Definition, signature: Signature) -> dict[str, str]:
    """C++ types of inputs and outputs. The n-th types of an OpDef belong together: those are taken that the signature has. Where none fit,
    each is what the signature has there, if the OpDef lists it, else what it lists first."""
    wanted = [TYPES[tensor.dtype][0] for tensor in (*signature.inputs, *signature.params)]
    made = [TYPES[tensor.dtype][0] for tensor in signature.outputs]
    pairs = [
        *zip_longest(definition.inputs, wanted[: len(definition.inputs)]),
        *zip_longest(definition.outputs, made[: len(definition.outputs)]),
    ]
    columns = range(max((len(tensor.types) for tensor, _ in pairs), default=0))
    fitting = [n for n in columns if all(own is None or (n < len(tensor.types) and tensor.types[n] == own) for tensor, own in pairs)]
    kinds = dict(TYPES.values())
    found = {}
    for tensor, own in pairs:
        if fitting and fitting[0] < len(tensor.types):
            own = tensor.types[fitting[0]]
        elif own is None or (tensor.types and own not in tensor.types):
            own = tensor.types[0] if tensor.types else ""
        found[tensor.name.upper()] = kinds.get(own, "float")
    return found
