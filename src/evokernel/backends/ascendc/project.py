"""An operator project: the sources of one operator, and the properties parsed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from evokernel.backends.ascendc import source_parser
from evokernel.backends.ascendc.entry import TYPES
from evokernel.backends.ascendc.source_parser import KernelEntry
from evokernel.backends.ascendc.tensor_steps import final_dtype
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.records import Signature

CallArgument = tuple[Any, ...]
"""One argument of a bound function: ("tensor", 0), ("number", 1), ("int", 3), ("float", 0.5), ("bool", True), ("text", "none"),
("tensors", 0, 1), ("ints", 1, 2), ("floats", 0.5, 1.0), ("copy", 0) for a copy that the operator may change, ("copies", 0, 1), ("host", 0)
for a tensor in the memory of the host, or ("absent",).

The steps of `tensor_steps` may follow a tensor: ("tensor", 0, ("reshape", -1, 4)), ("tensors", 0, (1, ("reshape", -1, 4))).
("size", ("tensor", 0), 1) is the size of an axis, also in a list of numbers."""

TENSOR_LISTS = ("tensors", "copies")
TENSOR_ARGUMENTS = ("tensor", "copy", "host", *TENSOR_LISTS)


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
    files: Mapping[str, str],
    signature: Signature,
    kernel: str,
    hosts: tuple[str, ...],
    op: str,
    entry: KernelEntry,
    call: Sequence[CallArgument] = (),
) -> Project:
    """Create a Project with the properties parsed from its sources; `call` are the arguments of the call through a binding, if any."""
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
        dtypes=resolve_dtypes(source_parser.parse_op_definition(sources.values()), signature, call),
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


def called_input_types(signature: Signature, call: Sequence[CallArgument]) -> list[str | None]:
    """Element types of the tensors that a call passes, in order: one for a list, None for an absent argument."""
    tensors = (*signature.inputs, *signature.params)
    if not call:
        return [TYPES[tensor.dtype][0] for tensor in tensors]
    types: list[str | None] = []
    for kind, *given in call:
        if kind in TENSOR_ARGUMENTS:
            index, *steps = given[0] if isinstance(given[0], tuple) else given if kind not in TENSOR_LISTS else given[:1]
            types.append(TYPES[final_dtype(tensors[int(index)].dtype, steps)][0])
        elif kind == "absent":
            types.append(None)
    return types


def resolve_dtypes(definition: source_parser.OpDefinition, signature: Signature, call: Sequence[CallArgument] = ()) -> dict[str, str]:
    """C++ types of inputs and outputs, by upper-case name.

    The n-th types of an OpDef belong together, so this takes the column that matches the signature. Without such a column each tensor
    has the type of the signature if the OpDef lists it, else the first listed type.
    """
    input_types = called_input_types(signature, call)
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
