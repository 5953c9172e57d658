"""Main program of the candidate process: loads the candidate and runs it on command.

Commands arrive on stdin, and each reply is one line on a separate pipe. A reply only says that a command has finished: the verifier reads
the outputs from shared memory and uses its own clock. Every candidate pays for the start of this process, so it imports numpy and nothing
heavier. This is the only module that may blame any exception on the candidate.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evokernel.core.backend import Arguments, Array, CallShape, Parts
from evokernel.core.errors import CandidateError, InfraError
from evokernel.sandbox.apply import enter_sandbox, restrict_after_loading

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
MAX_DETAIL_CHARS = 4000
STORAGE_DTYPES = {"bfloat16": "uint16"}
PREPARE_STEPS = ("trace", "inspect", "lower")
MAX_RANGES = 2000
"""At most about this many ranges of one output are reported to the verifier."""
MAX_ROTATION = 997
"""The farthest that the elements of an input move between two calls."""


SWAP_PAIR, ROTATE, PERTURB = "swap_pair", "rotate", "perturb"
"""How an input changes between two calls: two elements swap places, all elements rotate, or all get other values of similar size and sign.
"""
PERTURBED_BITS = {4: 20, 8: 48}
"""The number of low mantissa bits that PERTURB changes, by the size of the float in bytes."""
InputChange = tuple[int, int, int, str]
"""The index of an input tensor, the first offset of its changes, the step to the next offset, and how the tensor changes."""


class ReplyChannel:
    """The pipe that carries replies to the verifier."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def send(self, *words: str) -> None:
        data = " ".join(words).encode() + b"\n"
        while data:  # a long reply does not fit into the pipe at once
            data = data[os.write(self.descriptor, data) :]


class ProcessSetup(NamedTuple):
    """The process that started this one, and the descriptors it passed on."""

    parent_pid: int
    reply_fd: int
    inputs_fd: int
    outputs_fd: int


def main(setup: ProcessSetup | None = None, backend: Any = None) -> None:
    """Serve one candidate until stdin ends. A process forked from a zygote passes its setup and its loaded backend."""
    commands = os.fdopen(os.dup(0), "rb", buffering=1 << 16)
    order = json.loads(commands.readline())
    setup = setup or ProcessSetup(order["verifier_pid"], order["reply_fd"], order["inputs_fd"], order["outputs_fd"])
    exit_with_parent(setup.parent_pid)
    order |= setup._asdict()
    channel = ReplyChannel(setup.reply_fd)
    if backend is None:
        module, _, name = order["backend"].partition(":")
        backend = getattr(importlib.import_module(module), name)(**order["settings"])
        backend.preload(Path(order["workdir"]))
    enter_sandbox(order["sandbox"], {*setup[1:], commands.fileno()})
    channel.send("ready")
    server = CandidateServer(order, backend)
    for line in commands:
        command, nonce, payload = line.decode().rstrip("\n").split(" ", 2)
        start_times = time.process_time(), time.perf_counter()
        try:
            reply = ""
            if command == "run":
                server.run(*json.loads(payload))
            elif command == "run_parts":
                server.run_parts(*json.loads(payload))
            elif command == "locate_parts":
                reply = server.locate_parts(*json.loads(payload))
            elif command == "bind":
                server.bind(json.loads(payload))
            elif command == "load":
                server.load()
            elif command in PREPARE_STEPS:
                server.prepare(command, *json.loads(payload))
        except InfraError as error:
            channel.send("infra", nonce, json.dumps(str(error)[:MAX_DETAIL_CHARS]))
        except MemoryError as error:
            channel.send("failed", nonce, json.dumps(["memory", str(error)[:MAX_DETAIL_CHARS] or "out of memory"]))
        except CandidateError as error:
            channel.send("failed", nonce, json.dumps([error.reason, error.detail[:MAX_DETAIL_CHARS]]))
        except Exception as error:
            failure = (
                backend.explain_exception(error)
                if command in PREPARE_STEPS
                else CandidateError("raised", f"{type(error).__name__}: {error}")
            )
            channel.send("failed", nonce, json.dumps([failure.reason, failure.detail[:MAX_DETAIL_CHARS]]))
        else:
            end_times = time.process_time(), time.perf_counter()
            channel.send("done", nonce, *(f"{after - before:.9f}" for before, after in zip(start_times, end_times)), *filter(None, [reply]))


class CandidateServer:
    """The loaded candidate and its bound calls."""

    def __init__(self, order: dict[str, Any], backend: Any) -> None:
        self.order, self.backend = order, backend
        self.bound_calls: list[Callable[[], None]] = []
        self.bound_parts: dict[int, Parts] = {}
        """The calls that run in parts, by slot."""
        self.bound_arguments: list[Arguments] = []
        self.input_bits: list[list[memoryview]] = []
        """The inputs of every slot as bits, in a writable mapping that no kernel receives."""
        self.output_bits: list[list[memoryview]] = []
        """The outputs of every slot as bits."""

    def load(self) -> None:
        self.kernel = self.backend.load(Path(self.order["workdir"]))
        restrict_after_loading(self.order["sandbox"])

    def prepare(self, step: str, source: str, calls: dict[str, list[Any]], target: str) -> None:
        """Run one of the backend's three preparation steps: trace the candidate, inspect the traced programs, or lower them."""
        run_step = {"trace": self.backend.trace, "inspect": self.backend.inspect, "lower": self.backend.lower}[step]
        run_step(Path(source), {size: parse_call_shape(*call) for size, call in calls.items()}, Path(target))

    def run(self, slot: int, marks: list[tuple[int, int, int]], changes: list[InputChange], calls: int) -> None:
        """Call the kernel. Before every further call, spoil one output element and change the inputs, so that neither a finished output nor
        a remembered one passes for new work."""
        call, inputs, outputs = self.bound_calls[slot], self.input_bits[slot], self.output_bits[slot]
        if calls:
            call()
        for index in range(1, calls):
            output, element, bits = marks[index % len(marks)]
            outputs[output][element] = bits
            apply_input_changes(inputs, changes, index)
            call()

    def locate_parts(self, slot: int, positions: list[float]) -> str:
        """Return as JSON which ranges of each output the parts at these positions write; of very many ranges, some. Also say whether parts
        wait for each other, so that one takes as long as several."""
        parts = self.bound_parts[slot]
        ranges = [thin_out(one) for one in parts.locate(positions)]
        return json.dumps({"ranges": ranges, "do_wait": parts.do_parts_wait}, separators=(",", ":"))

    def run_parts(self, slot: int, positions: list[float]) -> None:
        """Run the parts at these positions."""
        self.bound_parts[slot].run(positions)

    def bind(self, spec: dict[str, Any]) -> None:
        """Bind one call to tensors in the memory shared with the verifier: inputs are read-only, outputs are writable."""
        (inputs_at, inputs_length), (outputs_at, outputs_length) = spec["spans"]
        populate = 0 if spec["in_parts"] else getattr(mmap, "MAP_POPULATE", 0)  # no timed call pays for page faults
        writable = mmap.PROT_READ | mmap.PROT_WRITE
        read_only_inputs = mmap.mmap(self.order["inputs_fd"], inputs_length, mmap.MAP_SHARED | populate, mmap.PROT_READ, offset=inputs_at)
        writable_inputs = mmap.mmap(self.order["inputs_fd"], inputs_length, mmap.MAP_SHARED | populate, writable, offset=inputs_at)
        output_memory = mmap.mmap(self.order["outputs_fd"], outputs_length, mmap.MAP_SHARED | populate, writable, offset=outputs_at)
        arguments = Arguments(
            inputs=tuple(view_tensor(read_only_inputs, *place) for place in spec["inputs"]),
            scalars=tuple((name, kind, value) for name, kind, value in spec["scalars"]),
            outputs=tuple(view_tensor(output_memory, *place) for place in spec["outputs"]),
        )
        self.bound_arguments.append(arguments)  # a bound call may hold raw addresses of these arrays
        self.input_bits.append([view_bits(view_tensor(writable_inputs, *place).data) for place in spec["inputs"]])
        self.output_bits.append([view_bits(output.data) for output in arguments.outputs])
        if spec["in_parts"]:
            self.bound_parts[len(self.bound_calls)] = self.kernel.bind_parts(arguments)
        self.bound_calls.append(refuse_whole_run if spec["in_parts"] else self.kernel.bind(arguments))


def thin_out(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return all ranges if they are few; otherwise evenly spread ones, the first and the last included."""
    step = max(1, -(-(len(ranges) - 1) // MAX_RANGES)) if ranges else 1
    return [*ranges[:-1:step], *ranges[-1:]]


def refuse_whole_run() -> None:
    """Stand for the call of a slot that runs in parts."""
    raise InfraError("this size is run in parts only")


def parse_call_shape(inputs: list[Any], scalars: list[Any], outputs: list[Any]) -> CallShape:
    """Convert a call shape that arrived as JSON."""
    shapes = [tuple((name, dtype, tuple(shape)) for name, dtype, shape in tensors) for tensors in (inputs, outputs)]
    return CallShape(shapes[0], tuple((name, kind, value) for name, kind, value in scalars), shapes[1])


def apply_input_changes(tensors: list[memoryview], changes: Sequence[InputChange], index: int) -> None:
    """Apply step `index` of a series of changes to all listed inputs at once, so that no result for a part of the inputs stays valid. The
    verifier applies the same changes to its own copy."""
    for tensor, first, step, kind in changes:
        data = tensors[tensor]
        if kind == PERTURB and data.itemsize in PERTURBED_BITS:
            array = np.asarray(data)
            np.bitwise_xor(array, array.dtype.type(scramble_bits(first + index * step, PERTURBED_BITS[data.itemsize])), out=array)
        elif kind != SWAP_PAIR:
            distance = 1 + (first + index * step) % min(len(data) - 1, MAX_ROTATION)
            tail = data[-distance:].tobytes()
            data[distance:] = data[:-distance]
            data[:distance] = np.frombuffer(tail, f"uint{8 * data.itemsize}").data
        else:
            one = (first + index * step) % len(data)
            other = (one + len(data) // 2) % len(data)
            data[one], data[other] = data[other], data[one]


def scramble_bits(number: int, bits: int) -> int:
    """Return a deterministic, random-looking pattern of `bits` bits that is never zero; consecutive numbers give unrelated patterns."""
    return (number * 0x9E3779B97F4A7C15 >> 7) % ((1 << bits) - 1) + 1


def view_bits(array: np.ndarray) -> memoryview:
    """View the elements of a contiguous array as unsigned integers that can be read and written."""
    return array.reshape(-1).view(f"uint{8 * array.itemsize}").data


def view_tensor(memory: mmap.mmap, name: str, dtype: str, shape: list[int], offset: int) -> Array:
    """View a tensor inside a mapped span."""
    storage_dtype = np.dtype(STORAGE_DTYPES.get(dtype, dtype))
    return Array(name, dtype, np.ndarray(tuple(shape), storage_dtype, memory, offset))


def exit_with_parent(parent_pid: int) -> None:
    """Make this process end when its parent is killed, and exit at once if the parent is already gone."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(PR_SET_DUMPABLE, 0)
    if os.getppid() != parent_pid:
        os._exit(0)
