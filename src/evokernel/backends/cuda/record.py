"""Runs a candidate's launch function once for every size, with a stand-in for the CUDA runtime, and writes down what it launched.

This process holds the candidate's host code and no device. What it writes is data, looked at by the judge before anything is run.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evokernel.backends.gpu.cubin import Function, functions
from evokernel.backends.gpu.driver import ATTRIBUTES
from evokernel.backends.gpu.program import FILE, Copy, Fill, Launch, Pointer, Program, Step, Symbol, TensorMap, key, renumbered, written
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import CallShape

LIBRARY, RECORDER, IMAGE, KNOWN = "kernel.so", "recorder.so", "kernel{}.image", "device.json"
UNDEFINED = re.compile(r"undefined symbol: (\w+)")
MAY_CALL = (
    "a launch function may launch kernels of this file, take scratch (cudaMallocAsync), set and copy tensors (cudaMemsetAsync,"
    " cudaMemcpyAsync, cudaMemcpyToSymbolAsync), make tensor maps, ask for attributes and occupancy; no library, stream, event or graph"
)
FIRST, APART = 0x5EED << 48, 1 << 38
"""Addresses that stand for tensors. Two sizes side by side in a kernel's arguments must not look like one: no size is so large."""
STREAM = 0x5EED57EA0
ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


def record(workdir: Path, calls: Mapping[str, CallShape], into: Path) -> None:
    """Leaves the programs of all sizes and the device code in a folder."""
    tape = Tape(workdir)
    entry = loaded(workdir / LIBRARY)
    tape.learn()
    if not tape.images:
        raise CandidateError("no_code", "the file holds no kernel: write a __global__ function and launch it")
    programs = {key_of(call): program(tape, entry, call) for call in calls.values()}
    tape.keep(programs, into)


class Recorded(NamedTuple):
    """What one call did. Steps know what was copied from the host by numbers below -1, the first by -2."""

    steps: list[Step]
    scratch: list[int]
    data: list[bytes]


class Tape:
    """The stand-in for the CUDA runtime, over which a candidate is loaded."""

    def __init__(self, workdir: Path) -> None:
        self.facts: dict[str, int] = json.loads((workdir / KNOWN).read_text())
        try:
            self.library: Any = ctypes.CDLL(str(workdir / RECORDER), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise InfraError(f"the stand-in for the CUDA runtime cannot be loaded: {error}") from error
        for name in ("recorder_end", "recorder_trouble"):
            getattr(self.library, name).restype = ctypes.c_char_p
        self.library.recorder_image.restype = ctypes.c_void_p
        for name, number in ATTRIBUTES.items():
            self.library.recorder_fact(number, self.facts[name])
        self.images: list[bytes] = []

    def learn(self) -> None:
        """Takes down the device code of what has been loaded since."""
        while image := self.device_code(len(self.images)):
            for function in functions(image).values():
                self.tell(len(self.images), function)
            self.images.append(image)

    def device_code(self, number: int) -> bytes:
        size = ctypes.c_uint64()
        place = self.library.recorder_image(ctypes.c_uint64(number), ctypes.byref(size))
        return ctypes.string_at(place, size.value) if place else b""

    def tell(self, image: int, function: Function) -> None:
        count = len(function.parameters)
        numbers = ctypes.c_int * count
        offsets, sizes = numbers(*(one.offset for one in function.parameters)), numbers(*(one.size for one in function.parameters))
        self.library.recorder_function(ctypes.c_uint64(image), function.name.encode(), function.registers, count, offsets, sizes)

    def begin(self, bases: Sequence[int], sizes: Sequence[int], stream: int) -> None:
        """Tensors at these addresses; all that is launched has to be launched on this stream."""
        words = ctypes.c_uint64 * len(bases)
        self.library.recorder_begin(len(bases), words(*bases), words(*sizes), ctypes.c_void_p(stream))

    def end(self) -> Recorded:
        """What was launched, the bytes of scratch that was taken, and what was copied from the host."""
        text = self.library.recorder_end().decode()
        self.refuse_trouble()
        return parsed(text)

    def refuse_trouble(self) -> None:
        """Raises what the stand-in found out of order."""
        if trouble := self.library.recorder_trouble().decode():
            reason, _, detail = trouble.partition("\t")
            raise CandidateError(reason, detail)

    def keep(self, programs: dict[str, Program], into: Path) -> None:
        (into / FILE).write_text(written(programs))
        for number, image in enumerate(self.images):
            (into / IMAGE.format(number)).write_bytes(image)


def loaded(path: Path) -> Any:
    """The launch function."""
    try:
        entry = ctypes.CDLL(str(path)).kernel
    except AttributeError as error:
        raise CandidateError("symbol", 'no function called `kernel` with C linkage: write extern "C" void kernel(...)') from error
    except OSError as error:
        raise unloadable(error) from error
    entry.restype = None
    return entry


def unloadable(error: Exception) -> CandidateError:
    """Why a built candidate could not be loaded."""
    if found := UNDEFINED.search(str(error)):
        return CandidateError("forbidden", f"calls {found[1]}: {MAY_CALL}")
    return CandidateError("symbol", f"the built kernel cannot be loaded: {error}")


def program(tape: Tape, entry: Any, call: CallShape) -> Program:
    """One call of the launch function."""
    bases, sizes = places(call)
    values, kept = arguments(call, bases)
    tape.begin(bases, sizes, STREAM)
    entry(*values, ctypes.c_void_p(STREAM))
    steps, scratch, data = tape.end()
    del kept
    if not any(isinstance(step, Launch) for step in steps):
        raise CandidateError("no_code", "`kernel` launches nothing: start a __global__ function with <<<grid, block, shared, stream>>>")
    first = len(sizes) + len(scratch)
    placed = tuple(renumbered(step, lambda tensor: first - 2 - tensor if tensor < 0 else tensor) for step in steps)
    return Program(tuple(sizes), len(call.outputs), tuple(scratch), placed, tuple(data))


def places(call: CallShape) -> tuple[list[int], list[int]]:
    """Addresses for inputs and outputs, where nothing is, and how many bytes each has."""
    tensors = (*call.inputs, *call.outputs)
    return [FIRST + APART * number for number in range(len(tensors))], [nbytes(dtype, shape) for _, dtype, shape in tensors]


def arguments(call: CallShape, bases: Sequence[int]) -> tuple[list[object], list[np.ndarray]]:
    """In the order of the signature: every tensor with its shape, numbers between inputs and outputs."""
    shapes = [np.array(shape or (0,), np.int64) for _, _, shape in (*call.inputs, *call.outputs)]
    pairs = [(ctypes.c_void_p(base), ctypes.c_void_p(shape.ctypes.data)) for base, shape in zip(bases, shapes, strict=True)]
    values: list[object] = [value for pair in pairs[: len(call.inputs)] for value in pair]
    for _, kind, value in call.scalars:
        values.append(
            ctypes.c_int64(int(value)) if kind == "int" else ctypes.c_bool(bool(value)) if kind == "bool" else ctypes.c_double(value)
        )
    values += [value for pair in pairs[len(call.inputs) :] for value in pair]
    return values, shapes


def parsed(text: str) -> Recorded:
    """The recorder's lines."""
    steps: list[Step] = []
    scratch: list[int] = []
    data: list[bytes] = []
    for line in text.splitlines():
        kind, *fields = line.split("\t")
        if kind == "scratch":
            scratch.append(int(fields[0]))
        elif kind == "data":
            data.append(bytes.fromhex(fields[0]))
        elif kind == "fill":
            steps.append(Fill(*map(int, fields)))
        elif kind == "copy":
            steps.append(Copy(*map(int, fields)))
        elif kind == "symbol":
            steps.append(Symbol(IMAGE.format(int(fields[0])), fields[1], *map(int, fields[2:])))
        else:
            image, name, grid, block, shared, cluster, cooperative, packed, pointers, maps = fields
            grouped = triple(cluster)
            places = tuple(Pointer(*map(int, pointer.split(":"))) for pointer in pointers.split())
            steps.append(
                Launch(
                    IMAGE.format(int(image)),
                    name,
                    triple(grid),
                    triple(block),
                    int(shared),
                    bytes.fromhex(packed),
                    places,
                    grouped if any(grouped) else None,
                    cooperative == "1",
                    tuple(tensor_map(found) for found in maps.split()),
                )
            )
    return Recorded(steps, scratch, data)


def tensor_map(text: str) -> TensorMap:
    at, kind, tensor, offset, interleave, swizzle, promotion, outside, rank, *axes = map(int, text.split(":"))
    ends = (0, rank, 2 * rank - 1, 3 * rank - 1, 4 * rank - 1)
    parts = (tuple(axes[start:end]) for start, end in pairwise(ends))
    return TensorMap(at, kind, tensor, offset, interleave, swizzle, promotion, outside, *parts)


def triple(text: str) -> tuple[int, int, int]:
    x, y, z = map(int, text.split())
    return x, y, z


def nbytes(dtype: str, shape: Sequence[int]) -> int:
    count = ITEM_BYTES[dtype]
    for extent in shape:
        count *= extent
    return count


def key_of(call: CallShape) -> str:
    """Of the program for a call."""
    tensors = [(dtype, shape) for _, dtype, shape in (*call.inputs, *call.outputs)]
    return key(tensors, [(kind, value) for _, kind, value in call.scalars])
