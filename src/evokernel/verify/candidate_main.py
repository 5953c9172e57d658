"""The candidate's side: loads it, runs it when told to, says so. The only place that may blame any exception on the candidate.

Commands come on stdin, answers go to a pipe of their own, one line each. An answer only says that a command is through: outputs are
read from shared memory by the judge, which also holds the clock. Started with nothing but numpy, because every candidate pays for it.
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

from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.protocols import Arguments, Array, CallShape
from evokernel.sandbox.apply import enter, enter_after_loading

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
LIMIT_BYTES = 4000
DTYPES = {"bfloat16": "uint16"}
PREPARATIONS = ("trace", "inspect", "lower")
FARTHEST = 997
"""Places that the elements of an input move by between two calls."""


PAIR, MOVED, OTHER = "pair", "moved", "other"
"""How an input changes: two elements change places, all move, or all become other numbers of the same size and sign."""
MIXED_BITS = {4: 20, 8: 48}
"""By bytes of a float: how many of its last bits become others."""
Change = tuple[int, int, int, str]
"""A tensor among the inputs, the place its changes begin with, the step to the next, and how it changes."""


class Answers:
    """The line back to the judge."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def say(self, *words: str) -> None:
        os.write(self.descriptor, " ".join(words).encode() + b"\n")


class Given(NamedTuple):
    """Who started this process, and the descriptors it was given."""

    parent: int
    answers: int
    inputs: int
    outputs: int


def main(given: Given | None = None, backend: Any = None) -> None:
    """Serves one candidate until stdin ends. A process that was copied from another was given its backend already."""
    commands = os.fdopen(os.dup(0), "rb", buffering=1 << 16)
    order = json.loads(commands.readline())
    given = given or Given(order["judge"], order["answers"], order["inputs"], order["outputs"])
    die_with(given.parent)
    order |= given._asdict()
    answers = Answers(given.answers)
    if backend is None:
        module, _, name = order["backend"].partition(":")
        backend = getattr(importlib.import_module(module), name)(**order["settings"])
        if hasattr(backend, "opened"):
            backend.opened(Path(order["workdir"]))
    enter(order["jail"], {*given[1:], commands.fileno()})
    answers.say("ready")
    served = Served(order, backend)
    for line in commands:
        word, nonce, rest = line.decode().rstrip("\n").split(" ", 2)
        began = time.process_time(), time.perf_counter()
        try:
            if word == "run":
                served.run(*json.loads(rest))
            elif word == "bind":
                served.bind(json.loads(rest))
            elif word == "load":
                served.load()
            elif word in PREPARATIONS:
                served.prepare(word, *json.loads(rest))
        except InfraError as error:
            answers.say("infra", nonce, json.dumps(str(error)[:LIMIT_BYTES]))
        except MemoryError as error:
            answers.say("failed", nonce, json.dumps(["memory", str(error)[:LIMIT_BYTES] or "out of memory"]))
        except CandidateError as error:
            answers.say("failed", nonce, json.dumps([error.reason, error.detail[:LIMIT_BYTES]]))
        except Exception as error:
            found = backend.explain(error) if word in PREPARATIONS else CandidateError("raised", f"{type(error).__name__}: {error}")
            answers.say("failed", nonce, json.dumps([found.reason, found.detail[:LIMIT_BYTES]]))
        else:
            ended = time.process_time(), time.perf_counter()
            answers.say("done", nonce, *(f"{after - before:.9f}" for before, after in zip(began, ended)))


class Served:
    """The candidate and its bound calls."""

    def __init__(self, order: dict[str, Any], backend: Any) -> None:
        self.order, self.backend = order, backend
        self.calls: list[Callable[[], None]] = []
        self.kept: list[Arguments] = []
        self.given: list[list[memoryview]] = []
        """Every slot's inputs as bits, through a mapping that can be written and that no kernel is told of."""
        self.wanted: list[list[memoryview]] = []
        """Every slot's outputs as bits."""

    def load(self) -> None:
        self.kernel = self.backend.load(Path(self.order["workdir"]))
        enter_after_loading(self.order["jail"])

    def prepare(self, word: str, source: str, calls: dict[str, list[Any]], into: str) -> None:
        """Traces the candidate, inspects or lowers what was traced: `word` says which of the backend's three."""
        getattr(self.backend, word)(Path(source), {size: called(*call) for size, call in calls.items()}, Path(into))

    def run(self, slot: int, marks: list[tuple[int, int, int]], changes: list[Change], calls: int) -> None:
        """Calls the kernel. Before each further call one element of an output is spoiled again and an input is changed, so that neither
        a finished output nor a remembered one passes for new work."""
        call, given, wanted = self.calls[slot], self.given[slot], self.wanted[slot]
        if calls:
            call()
        for index in range(1, calls):
            output, element, bits = marks[index % len(marks)]
            wanted[output][element] = bits
            change(given, changes, index)
            call()

    def bind(self, spec: dict[str, Any]) -> None:
        """One call's tensors, as views of the memory shared with the judge: inputs cannot be written, outputs can."""
        (in_at, in_bytes), (out_at, out_bytes) = spec["spans"]
        populate = getattr(mmap, "MAP_POPULATE", 0)  # so that no timed call pays for page faults
        writable = mmap.PROT_READ | mmap.PROT_WRITE
        given = mmap.mmap(self.order["inputs"], in_bytes, mmap.MAP_SHARED | populate, mmap.PROT_READ, offset=in_at)
        changed = mmap.mmap(self.order["inputs"], in_bytes, mmap.MAP_SHARED | populate, writable, offset=in_at)
        wanted = mmap.mmap(self.order["outputs"], out_bytes, mmap.MAP_SHARED | populate, writable, offset=out_at)
        arguments = Arguments(
            inputs=tuple(view(given, *place) for place in spec["inputs"]),
            scalars=tuple((name, kind, value) for name, kind, value in spec["scalars"]),
            outputs=tuple(view(wanted, *place) for place in spec["outputs"]),
        )
        self.kept.append(arguments)  # a bound call may hold bare addresses
        self.given.append([bits_of(view(changed, *place).data) for place in spec["inputs"]])
        self.wanted.append([bits_of(output.data) for output in arguments.outputs])
        self.calls.append(self.kernel.bind(arguments))


def called(inputs: list[Any], scalars: list[Any], outputs: list[Any]) -> CallShape:
    """A call that came as JSON."""
    tensors = [tuple((name, dtype, tuple(shape)) for name, dtype, shape in given) for given in (inputs, outputs)]
    return CallShape(tensors[0], tuple((name, kind, value) for name, kind, value in scalars), tensors[1])


def change(tensors: list[memoryview], changes: Sequence[Change], index: int) -> None:
    """The index-th of a series of changes to inputs, of all at once: nothing that follows from a part of them stays as it was. The judge
    does the same to its own."""
    for which, first, step, how in changes:
        data = tensors[which]
        if how == OTHER and data.itemsize in MIXED_BITS:
            array = np.asarray(data)
            np.bitwise_xor(array, array.dtype.type(mixed(first + index * step, MIXED_BITS[data.itemsize])), out=array)
        elif how != PAIR:
            by = 1 + (first + index * step) % min(len(data) - 1, FARTHEST)
            end = data[-by:].tobytes()
            data[by:] = data[:-by]
            data[:by] = np.frombuffer(end, f"uint{8 * data.itemsize}").data
        else:
            one = (first + index * step) % len(data)
            other = (one + len(data) // 2) % len(data)
            data[one], data[other] = data[other], data[one]


def mixed(number: int, bits: int) -> int:
    """Bits that are never all zero and look like chance: equal numbers give equal ones, numbers in a row have nothing in common."""
    return (number * 0x9E3779B97F4A7C15 >> 7) % ((1 << bits) - 1) + 1


def bits_of(array: np.ndarray) -> memoryview:
    """A contiguous array's elements as whole numbers to read and write."""
    return array.reshape(-1).view(f"uint{8 * array.itemsize}").data


def view(memory: mmap.mmap, name: str, dtype: str, shape: list[int], offset: int) -> Array:
    """A tensor inside a mapped span."""
    kind = np.dtype(DTYPES.get(dtype, dtype))
    return Array(name, dtype, np.ndarray(tuple(shape), kind, memory, offset))


def die_with(judge: int) -> None:
    """A judge that is killed takes its child along."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(PR_SET_DUMPABLE, 0)
    if os.getppid() != judge:
        os._exit(0)
