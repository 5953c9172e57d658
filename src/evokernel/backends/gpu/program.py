"""Recorded programs: the kernels that a candidate's host code launched, with grids and arguments, as data that runs without that code.

A program is recorded once per size, in a process that ends before verification. Tensors are numbered: inputs and parameters, then outputs,
then scratch.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.errors import CandidateError

FILE = "programs.json"
MAX_STEPS, MAX_SCRATCH, MAX_BYTES = 10_000, 64, 8 << 20
"""Limits on launches, on scratch tensors, and on the size of the file."""
MAX_THREADS, MAX_GRID, MAX_GRID_YZ = 1024, 2**31 - 1, 65535
MAX_SHARED = 227 << 10
WORD = 8
MAP_BYTES, MAX_AXES = 128, 5
MAP_ITEMS = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4, 12: 4}
"""Bytes per element, by the driver's type number."""
WIDTHS = (1, 2, 4)
"""Byte widths of fill values."""


class Pointer(NamedTuple):
    """An argument offset that holds the address of a byte of a tensor."""

    at: int
    tensor: int
    offset: int


class TensorMap(NamedTuple):
    """An argument offset that holds a tensor map of the driver, for tile copies (TMA)."""

    at: int
    kind: int
    tensor: int
    offset: int
    interleave: int
    swizzle: int
    promotion: int
    outside: int
    """Values read outside the tensor: zeros or NaN."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes, of all axes but the innermost, which is the first."""
    box: tuple[int, ...]
    steps: tuple[int, ...]


class Launch(NamedTuple):
    """One launch of a kernel."""

    module: str
    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    """Bytes of dynamic shared memory."""
    arguments: bytes
    """The packed arguments, without pointers."""
    pointers: tuple[Pointer, ...]
    cluster: tuple[int, int, int] | None = None
    cooperative: bool = False
    maps: tuple[TensorMap, ...] = ()


class Fill(NamedTuple):
    """Fills bytes of a tensor with a value of one or more bytes."""

    tensor: int
    offset: int
    value: int
    length: int
    width: int = 1


class Copy(NamedTuple):
    """Copies bytes from one tensor to another."""

    tensor: int
    offset: int
    source: int
    source_offset: int
    length: int


class SymbolCopy(NamedTuple):
    """Copies bytes from a tensor to a variable of the device code."""

    module: str
    name: str
    offset: int
    source: int
    source_offset: int
    length: int


Step = Launch | Fill | Copy | SymbolCopy
KINDS = {"launch": Launch, "fill": Fill, "copy": Copy, "symbol": SymbolCopy}


class Program(NamedTuple):
    """The recorded steps for one size."""

    tensors: tuple[int, ...]
    """Bytes of every input, parameter and output, in order."""
    outputs: int
    """Number of outputs, which are the last of these."""
    scratch: tuple[int, ...]
    steps: tuple[Step, ...]
    constants: tuple[bytes, ...] = ()
    """Contents of the candidate's constant tensors, which follow scratch."""


def program_key(tensors: Sequence[tuple[str, Sequence[int]]], scalars: Sequence[tuple[str, float]]) -> str:
    """Returns the key of a program: types and shapes of inputs, parameters and outputs, and scalar values."""
    return json.dumps([[[dtype, *shape] for dtype, shape in tensors], [[kind, float(value)] for kind, value in scalars]])


def format_programs(programs: dict[str, Program]) -> str:
    """Formats the programs of all sizes as JSON."""
    return json.dumps({size: {name: to_json(value) for name, value in one._asdict().items()} for size, one in programs.items()})


def to_json(value: Any) -> Any:
    """Converts steps to lists with their kind, and bytes to text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    kind = [name for name, cls in KINDS.items() if isinstance(value, cls)]
    return [*kind, *map(to_json, value)] if isinstance(value, tuple) else value


def read_programs(path: Path) -> dict[str, Program]:
    """Reads programs that `format_programs` wrote. The text is untrusted: any other content is the candidate's fault."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise CandidateError("memory", f"the recording of this kernel's launches exceeds {MAX_BYTES >> 20} MiB; use fewer launches")
        return {str(size): parse_program(fields) for size, fields in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CandidateError("forbidden", f"the recording of this kernel's launches is invalid, so it was modified: {error}") from error


def parse_program(fields: dict[str, Any]) -> Program:
    tensors, scratch = tuple(map(require_int, fields["tensors"])), tuple(map(require_int, fields["scratch"]))
    steps = tuple(parse_step(row) for row in fields["steps"])
    if len(steps) > MAX_STEPS or len(scratch) > MAX_SCRATCH:
        raise CandidateError("memory", f"a call may make at most {MAX_STEPS} launches and allocate at most {MAX_SCRATCH} scratch tensors")
    constants = tuple(base64.b64decode(text, validate=True) for text in fields.get("constants", ()))
    return Program(tensors, require_int(fields["outputs"]), scratch, steps, constants)


def parse_step(row: list[Any]) -> Step:
    kind, *values = row
    if kind == "launch":
        module, function, grid, block, shared, arguments, pointers, cluster, cooperative, maps = values
        return Launch(
            str(module),
            str(function),
            require_triple(grid),
            require_triple(block),
            require_int(shared),
            base64.b64decode(arguments, validate=True),
            tuple(Pointer(*map(require_int, pointer)) for pointer in pointers),
            None if cluster is None else require_triple(cluster),
            bool(cooperative),
            tuple(parse_tensor_map(values) for values in maps),
        )
    if kind == "symbol":
        return SymbolCopy(str(values[0]), str(values[1]), *map(require_int, values[2:]))
    return (Fill if kind == "fill" else Copy)(*map(require_int, values))


def parse_tensor_map(values: list[Any]) -> TensorMap:
    *numbers, sizes, strides, box, steps = values
    rank = len(sizes)
    if not 1 <= rank <= MAX_AXES or [len(strides), len(box), len(steps)] != [rank - 1, rank, rank]:
        raise ValueError("a tensor map has an invalid rank")
    at, kind, tensor, offset, *modes = map(require_int, numbers)
    interleave, swizzle, promotion, outside = modes
    axes = [tuple(map(require_int, part)) for part in (sizes, strides, box, steps)]
    return TensorMap(at, kind, tensor, offset, interleave, swizzle, promotion, outside, *axes)


def require_int(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a valid number of bytes")
    return value


def require_triple(values: Any) -> tuple[int, int, int]:
    x, y, z = map(require_int, values)
    return x, y, z


def validate_program(program: Program) -> None:
    """Raises CandidateError for launches that a device would refuse and for addresses outside the tensors."""
    sizes = (*program.tensors, *program.scratch, *map(len, program.constants))
    for one in program.steps:
        if isinstance(one, Launch):
            validate_launch(one)
            ranges = [(pointer.tensor, pointer.offset) for pointer in one.pointers]
            ranges += [(tensor_map.tensor, tensor_map.offset + tensor_map_bytes(tensor_map)) for tensor_map in one.maps]
            ends = [*(pointer.at + WORD for pointer in one.pointers), *(tensor_map.at + MAP_BYTES for tensor_map in one.maps)]
            if any(end > len(one.arguments) for end in ends):
                raise CandidateError("forbidden", "the recording of this kernel's launches is invalid, so it was modified")
        elif isinstance(one, SymbolCopy):
            ranges = [(one.source, one.source_offset + one.length)]
        else:
            ranges = [(one.tensor, one.offset + one.length)]
            if isinstance(one, Fill) and (one.width not in WIDTHS or one.offset % one.width or one.length % one.width):
                raise CandidateError("forbidden", "the recording of this kernel's launches is invalid, so it was modified")
            ranges += [(one.source, one.source_offset + one.length)] if isinstance(one, Copy) else []
            if one.tensor < len(program.tensors) - program.outputs:
                raise CandidateError("inputs", "a copy or memset writes to an input; inputs are read-only")
        for tensor, offset in ranges:
            if tensor >= len(sizes) or offset > sizes[tensor]:
                raise CandidateError("out_of_bounds", "a launch, copy or memset uses an address outside all tensors")


def tensor_map_bytes(tensor_map: TensorMap) -> int:
    """Returns the number of bytes of its tensor that a map covers."""
    if tensor_map.kind not in MAP_ITEMS or not all(tensor_map.sizes):
        raise CandidateError("launch", "a tensor map has an unsupported type or size")
    outer_bytes = sum((size - 1) * stride for size, stride in zip(tensor_map.sizes[1:], tensor_map.strides))
    return tensor_map.sizes[0] * MAP_ITEMS[tensor_map.kind] + outer_bytes


def validate_launch(one: Launch) -> None:
    """Raises CandidateError for a launch that no device accepts."""
    threads = one.block[0] * one.block[1] * one.block[2]
    if not 0 < threads <= MAX_THREADS or one.block[2] > 64:
        raise CandidateError(
            "launch", f"{one.function} is launched with blocks of {one.block}; a block has 1 to {MAX_THREADS} threads, at most 64 in z"
        )
    if one.shared > MAX_SHARED:
        raise CandidateError("launch", f"{one.function} requests {one.shared} bytes of shared memory; devices have at most {MAX_SHARED}")
    if not all(one.grid) or one.grid[0] > MAX_GRID or max(one.grid[1:]) > MAX_GRID_YZ:
        raise CandidateError(
            "launch", f"{one.function} is launched with a grid of {one.grid}; each extent is at least 1, y and z at most {MAX_GRID_YZ}"
        )


def tensors_of_step(step: Step) -> set[int]:
    """Returns the tensors that a step uses."""
    if isinstance(step, Launch):
        return {pointer.tensor for pointer in step.pointers} | {tensor_map.tensor for tensor_map in step.maps}
    if isinstance(step, SymbolCopy):
        return {step.source}
    return {step.tensor} if isinstance(step, Fill) else {step.tensor, step.source}


def renumber_tensors(step: Step, number: Callable[[int], int]) -> Step:
    """Returns the step with renumbered tensors."""
    if isinstance(step, Launch):
        pointers = tuple(one._replace(tensor=number(one.tensor)) for one in step.pointers)
        return step._replace(pointers=pointers, maps=tuple(one._replace(tensor=number(one.tensor)) for one in step.maps))
    if isinstance(step, Fill):
        return step._replace(tensor=number(step.tensor))
    if isinstance(step, SymbolCopy):
        return step._replace(source=number(step.source))
    return step._replace(tensor=number(step.tensor), source=number(step.source))
