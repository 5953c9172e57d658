"""Runs a candidate's launch function once per size against a recording CUDA runtime, and records its launches.

This process contains the candidate's host code and no device. It writes data, which the verifier checks before anything runs.
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

from evokernel.backends.gpu.cubin import KernelInfo, read_kernels
from evokernel.backends.gpu.driver import ATTRIBUTES
from evokernel.backends.gpu.program import (
    FILE,
    Copy,
    Fill,
    Launch,
    Pointer,
    Program,
    Step,
    SymbolCopy,
    TensorMap,
    format_programs,
    program_key,
    renumber_tensors,
)
from evokernel.core.backend import CallShape
from evokernel.core.errors import CandidateError, InfraError

LIBRARY, RECORDER, IMAGE, DEVICE_FILE = "kernel.so", "recorder.so", "kernel{}.image", "device.json"
UNDEFINED = re.compile(r"undefined symbol: (\w+)")
MAY_CALL = (
    "a launch function may launch kernels of this file, allocate scratch (cudaMallocAsync), set and copy tensors (cudaMemsetAsync,"
    " cudaMemcpyAsync, cudaMemcpyToSymbolAsync), create tensor maps, query attributes and occupancy; no library, stream, event or graph"
)
FIRST, APART = 0x5EED << 48, 1 << 38
"""Fake addresses of tensors, so large that no two sizes side by side in a kernel's arguments look like one."""
STREAM = 0x5EED57EA0
ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


def record_launches(workdir: Path, calls: Mapping[str, CallShape], into: Path) -> None:
    """Records the programs of all sizes and the device code into a folder."""
    runtime = RecordingRuntime(workdir)
    entry = load_launch_function(workdir / LIBRARY)
    runtime.register_device_code()
    if not runtime.images:
        raise CandidateError("no_code", "the file contains no kernel; write a __global__ function and launch it")
    programs = {program_key_of(call): record_call(runtime, entry, call) for call in calls.values()}
    runtime.write_programs(programs, into)


class RecordedCall(NamedTuple):
    """The recording of one call. Steps refer to data copied from the host by numbers below -1, starting at -2."""

    steps: list[Step]
    scratch: list[int]
    data: list[bytes]


class RecordingRuntime:
    """The recording CUDA runtime against which a candidate is loaded."""

    def __init__(self, workdir: Path) -> None:
        self.attributes: dict[str, int] = json.loads((workdir / DEVICE_FILE).read_text())
        try:
            self.library: Any = ctypes.CDLL(str(workdir / RECORDER), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise InfraError(f"the recording runtime cannot be loaded: {error}") from error
        for name in ("recorder_end", "recorder_trouble"):
            getattr(self.library, name).restype = ctypes.c_char_p
        self.library.recorder_image.restype = ctypes.c_void_p
        for name, number in ATTRIBUTES.items():
            self.library.recorder_fact(number, self.attributes[name])
        self.images: list[bytes] = []

    def register_device_code(self) -> None:
        """Registers the device code of all libraries loaded since the last call."""
        while image := self.device_code(len(self.images)):
            for function in read_kernels(image).values():
                self.register_kernel(len(self.images), function)
            self.images.append(image)

    def device_code(self, number: int) -> bytes:
        size = ctypes.c_uint64()
        place = self.library.recorder_image(ctypes.c_uint64(number), ctypes.byref(size))
        return ctypes.string_at(place, size.value) if place else b""

    def register_kernel(self, image: int, function: KernelInfo) -> None:
        count = len(function.parameters)
        numbers = ctypes.c_int * count
        offsets, sizes = numbers(*(one.offset for one in function.parameters)), numbers(*(one.size for one in function.parameters))
        self.library.recorder_function(ctypes.c_uint64(image), function.name.encode(), function.registers, count, offsets, sizes)

    def begin(self, bases: Sequence[int], sizes: Sequence[int], stream: int) -> None:
        """Starts a recording with tensors at these addresses; every launch must use this stream."""
        words = ctypes.c_uint64 * len(bases)
        self.library.recorder_begin(len(bases), words(*bases), words(*sizes), ctypes.c_void_p(stream))

    def end(self) -> RecordedCall:
        """Ends a recording; returns its launches, scratch sizes and data copied from the host."""
        text = self.library.recorder_end().decode()
        self.raise_for_violation()
        return parse_recording(text)

    def raise_for_violation(self) -> None:
        """Raises CandidateError for a violation that the recording runtime noticed."""
        if violation := self.library.recorder_trouble().decode():
            reason, _, detail = violation.partition("\t")
            raise CandidateError(reason, detail)

    def write_programs(self, programs: dict[str, Program], into: Path) -> None:
        (into / FILE).write_text(format_programs(programs))
        for number, image in enumerate(self.images):
            (into / IMAGE.format(number)).write_bytes(image)


def load_launch_function(path: Path) -> Any:
    """Loads the library and returns its launch function."""
    try:
        entry = ctypes.CDLL(str(path)).kernel
    except AttributeError as error:
        raise CandidateError("symbol", 'there is no function `kernel` with C linkage; define it as extern "C" void kernel(...)') from error
    except OSError as error:
        raise explain_load_error(error) from error
    entry.restype = None
    return entry


def explain_load_error(error: Exception) -> CandidateError:
    """Explains why a built candidate cannot be loaded."""
    if match := UNDEFINED.search(str(error)):
        return CandidateError("forbidden", f"the kernel calls {match[1]}; {MAY_CALL}")
    return CandidateError("symbol", f"the built kernel cannot be loaded: {error}")


def record_call(runtime: RecordingRuntime, entry: Any, call: CallShape) -> Program:
    """Records one call of the launch function."""
    bases, sizes = fake_addresses(call)
    values, shapes = ctypes_arguments(call, bases)
    runtime.begin(bases, sizes, STREAM)
    entry(*values, ctypes.c_void_p(STREAM))
    steps, scratch, data = runtime.end()
    del shapes
    if not any(isinstance(step, Launch) for step in steps):
        raise CandidateError("no_code", "`kernel` launches no kernel; launch a __global__ function with <<<grid, block, shared, stream>>>")
    first = len(sizes) + len(scratch)
    renumbered_steps = tuple(renumber_tensors(step, lambda tensor: first - 2 - tensor if tensor < 0 else tensor) for step in steps)
    return Program(tuple(sizes), len(call.outputs), tuple(scratch), renumbered_steps, tuple(data))


def fake_addresses(call: CallShape) -> tuple[list[int], list[int]]:
    """Returns unmapped addresses for inputs and outputs, and their sizes in bytes."""
    tensors = (*call.inputs, *call.outputs)
    return [FIRST + APART * number for number in range(len(tensors))], [tensor_bytes(dtype, shape) for _, dtype, shape in tensors]


def ctypes_arguments(call: CallShape, bases: Sequence[int]) -> tuple[list[object], list[np.ndarray]]:
    """Converts arguments in the order of the signature: tensors with shapes, scalars between inputs and outputs."""
    shapes = [np.array(shape or (0,), np.int64) for _, _, shape in (*call.inputs, *call.outputs)]
    pairs = [(ctypes.c_void_p(base), ctypes.c_void_p(shape.ctypes.data)) for base, shape in zip(bases, shapes, strict=True)]
    values: list[object] = [value for pair in pairs[: len(call.inputs)] for value in pair]
    for _, kind, value in call.scalars:
        values.append(
            ctypes.c_int64(int(value)) if kind == "int" else ctypes.c_bool(bool(value)) if kind == "bool" else ctypes.c_double(value)
        )
    values += [value for pair in pairs[len(call.inputs) :] for value in pair]
    return values, shapes


def parse_recording(text: str) -> RecordedCall:
    """Parses the recording runtime's lines."""
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
            steps.append(SymbolCopy(IMAGE.format(int(fields[0])), fields[1], *map(int, fields[2:])))
        else:
            image, name, grid, block, shared, cluster, cooperative, argument_bytes, pointers, maps = fields
            cluster_size = parse_triple(cluster)
            pointer_rows = tuple(Pointer(*map(int, pointer.split(":"))) for pointer in pointers.split())
            steps.append(
                Launch(
                    IMAGE.format(int(image)),
                    name,
                    parse_triple(grid),
                    parse_triple(block),
                    int(shared),
                    bytes.fromhex(argument_bytes),
                    pointer_rows,
                    cluster_size if any(cluster_size) else None,
                    cooperative == "1",
                    tuple(parse_tensor_map(fields_text) for fields_text in maps.split()),
                )
            )
    return RecordedCall(steps, scratch, data)


def parse_tensor_map(text: str) -> TensorMap:
    at, kind, tensor, offset, interleave, swizzle, promotion, outside, rank, *axes = map(int, text.split(":"))
    ends = (0, rank, 2 * rank - 1, 3 * rank - 1, 4 * rank - 1)
    parts = (tuple(axes[start:end]) for start, end in pairwise(ends))
    return TensorMap(at, kind, tensor, offset, interleave, swizzle, promotion, outside, *parts)


def parse_triple(text: str) -> tuple[int, int, int]:
    x, y, z = map(int, text.split())
    return x, y, z


def tensor_bytes(dtype: str, shape: Sequence[int]) -> int:
    count = ITEM_BYTES[dtype]
    for extent in shape:
        count *= extent
    return count


def program_key_of(call: CallShape) -> str:
    """Returns the key of the program for a call."""
    tensors = [(dtype, shape) for _, dtype, shape in (*call.inputs, *call.outputs)]
    return program_key(tensors, [(kind, value) for _, kind, value in call.scalars])
