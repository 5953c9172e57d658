"""Runs a candidate's launch function once for every size, with a stand-in for the CUDA runtime, and writes down what it launched.

This process holds the candidate's host code and no device. What it writes is data, looked at by the judge before anything is run.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evokernel.backends.gpu.cubin import Function, functions
from evokernel.backends.gpu.driver import ATTRIBUTES
from evokernel.backends.gpu.program import FILE, Copy, Fill, Launch, Pointer, Program, Step, key, written
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import Call

LIBRARY, RECORDER, IMAGE, KNOWN = "kernel.so", "recorder.so", "kernel.image", "device.json"
UNDEFINED = re.compile(r"undefined symbol: (\w+)")
MAY_CALL = (
    "a launch function may launch kernels of this file, take scratch (cudaMallocAsync), set and copy tensors (cudaMemsetAsync,"
    " cudaMemcpyAsync), ask for attributes and occupancy; no library, stream, event or graph"
)
FIRST, APART = 1 << 45, 1 << 38
STREAM = 0x5EED57EA0
ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}


def record(workdir: Path, calls: Mapping[str, Call], into: Path) -> None:
    """Leaves the programs of all sizes and the device code in a folder."""
    recorder = Recorder(workdir, json.loads((workdir / KNOWN).read_text()))
    programs = {}
    for call in calls.values():
        programs[key_of(call)] = recorder.program(call)
    (into / FILE).write_text(written(programs))
    (into / IMAGE).write_bytes(recorder.image)


class Recorder:
    """The stand-in, with the candidate loaded over it."""

    def __init__(self, workdir: Path, facts: Mapping[str, int]) -> None:
        try:
            self.library: Any = ctypes.CDLL(str(workdir / RECORDER), ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise InfraError(f"the stand-in for the CUDA runtime cannot be loaded: {error}") from error
        for name in ("recorder_end", "recorder_trouble"):
            getattr(self.library, name).restype = ctypes.c_char_p
        self.library.recorder_image.restype = ctypes.c_void_p
        for name, number in ATTRIBUTES.items():
            self.library.recorder_fact(number, facts[name])
        try:
            self.entry = ctypes.CDLL(str(workdir / LIBRARY)).kernel
        except AttributeError as error:
            raise CandidateError("symbol", 'no function called `kernel` with C linkage: write extern "C" void kernel(...)') from error
        except OSError as error:
            if found := UNDEFINED.search(str(error)):
                raise CandidateError("forbidden", f"calls {found[1]}: {MAY_CALL}") from error
            raise CandidateError("symbol", f"the built kernel cannot be loaded: {error}") from error
        self.entry.restype = None
        self.image = self.device_code()
        self.functions = functions(self.image)
        for function in self.functions.values():
            self.tell(function)

    def device_code(self) -> bytes:
        size = ctypes.c_uint64()
        place = self.library.recorder_image(ctypes.byref(size))
        if not place:
            raise CandidateError("no_code", "the file holds no kernel: write a __global__ function and launch it")
        return ctypes.string_at(place, size.value)

    def tell(self, function: Function) -> None:
        count = len(function.parameters)
        numbers = ctypes.c_int * count
        offsets, sizes = numbers(*(one.offset for one in function.parameters)), numbers(*(one.size for one in function.parameters))
        self.library.recorder_function(function.name.encode(), function.registers, count, offsets, sizes)

    def program(self, call: Call) -> Program:
        tensors = (*call.inputs, *call.outputs)
        bases = [FIRST + APART * number for number in range(len(tensors))]
        sizes = [nbytes(dtype, shape) for _, dtype, shape in tensors]
        words = ctypes.c_uint64 * len(tensors)
        arguments, kept = self.arguments(call, bases)
        self.library.recorder_begin(len(tensors), words(*bases), words(*sizes), ctypes.c_void_p(STREAM))
        self.entry(*arguments, ctypes.c_void_p(STREAM))
        text = self.library.recorder_end().decode()
        del kept
        if trouble := self.library.recorder_trouble().decode():
            reason, _, detail = trouble.partition("\t")
            raise CandidateError(reason, detail)
        steps, scratch = parsed(text)
        if not any(isinstance(step, Launch) for step in steps):
            raise CandidateError("no_code", "`kernel` launches nothing: start a __global__ function with <<<grid, block, shared, stream>>>")
        return Program(tuple(sizes), len(call.outputs), tuple(scratch), tuple(steps))

    def arguments(self, call: Call, bases: Sequence[int]) -> tuple[list[object], list[np.ndarray]]:
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


def parsed(text: str) -> tuple[list[Step], list[int]]:
    """The recorder's lines."""
    steps: list[Step] = []
    scratch: list[int] = []
    for line in text.splitlines():
        kind, *fields = line.split("\t")
        if kind == "scratch":
            scratch.append(int(fields[0]))
        elif kind == "fill":
            steps.append(Fill(*map(int, fields)))
        elif kind == "copy":
            steps.append(Copy(*map(int, fields)))
        else:
            name, grid, block, shared, cluster, cooperative, packed, pointers = fields
            grouped = triple(cluster)
            places = tuple(Pointer(*map(int, pointer.split(":"))) for pointer in pointers.split())
            steps.append(
                Launch(
                    IMAGE,
                    name,
                    triple(grid),
                    triple(block),
                    int(shared),
                    bytes.fromhex(packed),
                    places,
                    grouped if any(grouped) else None,
                    cooperative == "1",
                )
            )
    return steps, scratch


def triple(text: str) -> tuple[int, int, int]:
    x, y, z = map(int, text.split())
    return x, y, z


def nbytes(dtype: str, shape: Sequence[int]) -> int:
    count = ITEM_BYTES[dtype]
    for extent in shape:
        count *= extent
    return count


def key_of(call: Call) -> str:
    """Of the program for a call."""
    tensors = [(dtype, shape) for _, dtype, shape in (*call.inputs, *call.outputs)]
    return key(tensors, [(kind, value) for _, kind, value in call.scalars])
