"""What a candidate's host code launched, written down: kernels with their grids and arguments, as data that can be run without that code.

A program is made once for every size, in a process that is gone before anything is judged. Tensors are known by their place: inputs and
parameters, then outputs, then scratch the candidate asked for.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.core.errors import CandidateError

FILE = "programs.json"
MOST_STEPS, MOST_SCRATCH, MOST_BYTES = 10_000, 64, 8 << 20
"""Of launches, of tensors for scratch, and of a file that says so."""
MOST_THREADS, MOST_GRID, MOST_GRID_YZ = 1024, 2**31 - 1, 65535
MOST_SHARED = 227 << 10
WORD = 8
MAP_BYTES, MOST_AXES = 128, 5
MAP_ITEMS = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4, 12: 4}
"""Bytes of an element, by the driver's number of the type."""
WIDTHS = (1, 2, 4)
"""Of a value that a tensor is set to."""


class Pointer(NamedTuple):
    """A place among a kernel's arguments that holds the address of a tensor's byte."""

    at: int
    tensor: int
    offset: int


class TensorMap(NamedTuple):
    """A place among a kernel's arguments that holds what the driver makes of a tensor, for copies of whole tiles."""

    at: int
    kind: int
    tensor: int
    offset: int
    interleave: int
    swizzle: int
    promotion: int
    outside: int
    """What is read there: zeros, or what is no number."""
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
    """As the kernel finds them, but for its pointers."""
    pointers: tuple[Pointer, ...]
    cluster: tuple[int, int, int] | None = None
    cooperative: bool = False
    maps: tuple[TensorMap, ...] = ()


class Fill(NamedTuple):
    """Bytes of a tensor set to a value, which may be of several bytes."""

    tensor: int
    offset: int
    value: int
    length: int
    width: int = 1


class Copy(NamedTuple):
    """Bytes of a tensor copied from another's."""

    tensor: int
    offset: int
    source: int
    source_offset: int
    length: int


class Symbol(NamedTuple):
    """Bytes of a variable of the device code, copied from a tensor."""

    module: str
    name: str
    offset: int
    source: int
    source_offset: int
    length: int


Step = Launch | Fill | Copy | Symbol
KINDS = {"launch": Launch, "fill": Fill, "copy": Copy, "symbol": Symbol}


class Program(NamedTuple):
    """What is done for one size."""

    tensors: tuple[int, ...]
    """Bytes of every input, parameter and output, in order."""
    outputs: int
    """How many of these, at the end, are outputs."""
    scratch: tuple[int, ...]
    steps: tuple[Step, ...]
    constants: tuple[bytes, ...] = ()
    """Contents of tensors that the candidate brought along; they come after scratch."""


def key(tensors: Sequence[tuple[str, Sequence[int]]], scalars: Sequence[tuple[str, float]]) -> str:
    """What a program is made for: types and shapes of inputs, parameters and outputs, and numbers."""
    return json.dumps([[[dtype, *shape] for dtype, shape in tensors], [[kind, float(value)] for kind, value in scalars]])


def written(programs: dict[str, Program]) -> str:
    """All sizes as one text."""
    return json.dumps({size: {name: as_json(value) for name, value in one._asdict().items()} for size, one in programs.items()})


def as_json(value: Any) -> Any:
    """Steps with their kind, bytes as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    kind = [name for name, cls in KINDS.items() if isinstance(value, cls)]
    return [*kind, *map(as_json, value)] if isinstance(value, tuple) else value


def read(path: Path) -> dict[str, Program]:
    """What `written` wrote. Whoever wrote it may not mean well: anything else is the candidate's fault."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise CandidateError("memory", f"the launches of this kernel take more than {MOST_BYTES >> 20} MiB to write down")
        return {str(size): program(found) for size, found in json.loads(path.read_text()).items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CandidateError("forbidden", f"what was recorded of this kernel's launches was changed: {error}") from error


def program(found: dict[str, Any]) -> Program:
    tensors, scratch = tuple(map(whole, found["tensors"])), tuple(map(whole, found["scratch"]))
    steps = tuple(step(row) for row in found["steps"])
    if len(steps) > MOST_STEPS or len(scratch) > MOST_SCRATCH:
        raise CandidateError("memory", f"a call may launch {MOST_STEPS} kernels and take {MOST_SCRATCH} pieces of scratch, not more")
    constants = tuple(base64.b64decode(text, validate=True) for text in found.get("constants", ()))
    return Program(tensors, whole(found["outputs"]), scratch, steps, constants)


def step(row: list[Any]) -> Step:
    kind, *values = row
    if kind == "launch":
        module, function, grid, block, shared, arguments, pointers, cluster, cooperative, maps = values
        return Launch(
            str(module),
            str(function),
            three(grid),
            three(block),
            whole(shared),
            base64.b64decode(arguments, validate=True),
            tuple(Pointer(*map(whole, pointer)) for pointer in pointers),
            None if cluster is None else three(cluster),
            bool(cooperative),
            tuple(tensor_map(found) for found in maps),
        )
    if kind == "symbol":
        return Symbol(str(values[0]), str(values[1]), *map(whole, values[2:]))
    return (Fill if kind == "fill" else Copy)(*map(whole, values))


def tensor_map(values: list[Any]) -> TensorMap:
    *numbers, sizes, strides, box, steps = values
    rank = len(sizes)
    if not 1 <= rank <= MOST_AXES or [len(strides), len(box), len(steps)] != [rank - 1, rank, rank]:
        raise ValueError("a tensor map of no rank")
    at, kind, tensor, offset, *modes = map(whole, numbers)
    interleave, swizzle, promotion, outside = modes
    axes = [tuple(map(whole, part)) for part in (sizes, strides, box, steps)]
    return TensorMap(at, kind, tensor, offset, interleave, swizzle, promotion, outside, *axes)


def whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no number of bytes")
    return value


def three(values: Any) -> tuple[int, int, int]:
    x, y, z = map(whole, values)
    return x, y, z


def refuse_impossible(made: Program) -> None:
    """Raises what a device would say of the launches, and refuses addresses outside of the tensors."""
    sizes = (*made.tensors, *made.scratch, *map(len, made.constants))
    for one in made.steps:
        if isinstance(one, Launch):
            refuse_launch(one)
            used = [(pointer.tensor, pointer.offset) for pointer in one.pointers]
            used += [(found.tensor, found.offset + reach(found)) for found in one.maps]
            ends = [*(pointer.at + WORD for pointer in one.pointers), *(found.at + MAP_BYTES for found in one.maps)]
            if any(end > len(one.arguments) for end in ends):
                raise CandidateError("forbidden", "what was recorded of this kernel's launches was changed")
        elif isinstance(one, Symbol):
            used = [(one.source, one.source_offset + one.length)]
        else:
            used = [(one.tensor, one.offset + one.length)]
            if isinstance(one, Fill) and (one.width not in WIDTHS or one.offset % one.width or one.length % one.width):
                raise CandidateError("forbidden", "what was recorded of this kernel's launches was changed")
            used += [(one.source, one.source_offset + one.length)] if isinstance(one, Copy) else []
            if one.tensor < len(made.tensors) - made.outputs:
                raise CandidateError("inputs", "a copy or memset writes into an input: inputs are read only")
        for tensor, offset in used:
            if tensor >= len(sizes) or offset > sizes[tensor]:
                raise CandidateError("out_of_bounds", "a launch, copy or memset uses an address outside of every tensor")


def reach(found: TensorMap) -> int:
    """How many bytes of its tensor a map covers."""
    if found.kind not in MAP_ITEMS or not all(found.sizes):
        raise CandidateError("launch", "a tensor map of a type or a size that is not recorded")
    return found.sizes[0] * MAP_ITEMS[found.kind] + sum((size - 1) * stride for size, stride in zip(found.sizes[1:], found.strides))


def refuse_launch(one: Launch) -> None:
    """What no device takes."""
    threads = one.block[0] * one.block[1] * one.block[2]
    if not 0 < threads <= MOST_THREADS or one.block[2] > 64:
        raise CandidateError(
            "launch", f"{one.function} is launched with blocks of {one.block}: 1 to {MOST_THREADS} threads, 64 at most in z"
        )
    if one.shared > MOST_SHARED:
        raise CandidateError("launch", f"{one.function} asks for {one.shared} bytes of shared memory; devices have {MOST_SHARED} at most")
    if not all(one.grid) or one.grid[0] > MOST_GRID or max(one.grid[1:]) > MOST_GRID_YZ:
        raise CandidateError(
            "launch", f"{one.function} is launched with a grid of {one.grid}: each at least 1, y and z at most {MOST_GRID_YZ}"
        )


def used(step: Step) -> set[int]:
    """The tensors of a step."""
    if isinstance(step, Launch):
        return {pointer.tensor for pointer in step.pointers} | {found.tensor for found in step.maps}
    if isinstance(step, Symbol):
        return {step.source}
    return {step.tensor} if isinstance(step, Fill) else {step.tensor, step.source}


def renumbered(step: Step, number: Callable[[int], int]) -> Step:
    """The same with other tensors."""
    if isinstance(step, Launch):
        pointers = tuple(one._replace(tensor=number(one.tensor)) for one in step.pointers)
        return step._replace(pointers=pointers, maps=tuple(one._replace(tensor=number(one.tensor)) for one in step.maps))
    if isinstance(step, Fill):
        return step._replace(tensor=number(step.tensor))
    if isinstance(step, Symbol):
        return step._replace(source=number(step.source))
    return step._replace(tensor=number(step.tensor), source=number(step.source))
