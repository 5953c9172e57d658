"""Runs a built operator on the simulator through ctypes, in the candidate process."""

from __future__ import annotations

import ctypes
import json
import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments, Array

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
LEVELS = ("fast", "hardware", "strict")
ABSENT, TENSOR, INTEGER, NUMBER, BOOLEAN, INTEGERS, TEXT, TENSORS, NUMBERS = range(9)
MAX_AXES = 8
IS_COPY, IS_ON_HOST = 1, 2


class Argument(ctypes.Structure):
    """The C struct `SimulatorArgument` of `bind.h`."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("flags", ctypes.c_int32),
        ("dims", ctypes.c_int64 * MAX_AXES),
        ("data", ctypes.c_void_p),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
    )


def preload_simulator(library: Path) -> None:
    """Load the library and install its signal handlers. Call this before the process enters the sandbox, which forbids both."""
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL).simulator_open()


class AscendcKernel:
    """An operator library, loaded together with the simulator."""

    def __init__(self, workdir: Path, runtime: str, library: str, level: str, chip: str, run_s: float) -> None:
        self.simulator = ctypes.CDLL(str(workdir / runtime), mode=ctypes.RTLD_GLOBAL)
        self.simulator.simulator_error.restype = self.simulator.simulator_report.restype = ctypes.c_char_p
        self.simulator.simulator_level(LEVELS.index(level))
        self.simulator.simulator_budget(ctypes.c_double(run_s))
        if unknown_count := self.simulator.simulator_configure(chip.encode()):
            raise ValueError(f"The simulator does not know {unknown_count} of the chip's settings")
        try:
            self.operator = ctypes.CDLL(str(workdir / library))
        except OSError as error:
            raise CandidateError(
                "symbol", f"the compiled operator cannot be loaded: {str(error).replace(str(workdir) + '/', '')}"
            ) from error
        self.plan = json.loads((workdir / "plan.json").read_text())
        self.simulator.simulator_mark(self.plan.get("mark", "").encode())
        self.keep_alive: list[object] = []

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """Convert the arguments once; the returned function runs the operator on them."""
        tensors = [tensor_argument(array) for array in arguments.inputs]
        numbers = [scalar_argument(kind, value) for _, kind, value in arguments.scalars]
        outputs = argument_array([tensor_argument(array) for array in arguments.outputs])
        self.keep_alive += [arguments, outputs]
        count = len(arguments.outputs)
        if self.plan["function"]:
            copies = CopiedTensors(arguments.inputs)
            self.keep_alive.append(copies)
            call_arguments = argument_array([self.bound_argument(one, tensors, numbers, copies) for one in self.plan["call"]])
            function, length = self.plan["function"].encode(), len(self.plan["call"])

            def call_function() -> None:
                copies.refresh()
                self.raise_for_error(self.simulator.simulator_call(function, call_arguments, length, outputs, count))

            return call_function
        inputs, attributes, name = argument_array(tensors), argument_array(numbers), self.plan["op"].encode()
        return lambda: self.raise_for_error(
            self.simulator.simulator_run(name, inputs, len(tensors), attributes, len(numbers), outputs, count)
        )

    def bound_argument(
        self, specification: Sequence[Any], tensors: Sequence[Argument], numbers: Sequence[Argument], copies: CopiedTensors
    ) -> Argument:
        """Resolve an argument of a bound function, written as in `CallArgument` of project.py."""
        kind, *rest = specification
        if kind in ("tensor", "number"):
            return (tensors if kind == "tensor" else numbers)[int(rest[0])]
        if kind in ("copy", "host"):
            return copies.add(int(rest[0])) if kind == "copy" else with_flags(tensors[int(rest[0])], IS_ON_HOST)
        if kind == "copies":
            return self.list_argument(TENSORS, argument_array([copies.add(int(index)) for index in rest]), len(rest))
        if kind == "tensors":
            return self.list_argument(TENSORS, argument_array([tensors[int(index)] for index in rest]), len(rest))
        if kind == "text":
            encoded = rest[0].encode()
            return self.list_argument(TEXT, ctypes.create_string_buffer(encoded), len(encoded))
        if kind in ("ints", "floats"):
            element = ctypes.c_int64 if kind == "ints" else ctypes.c_double
            return self.list_argument(INTEGERS if kind == "ints" else NUMBERS, (element * len(rest))(*rest), len(rest))
        return scalar_argument(kind, rest[0]) if rest else Argument(kind=ABSENT)

    def list_argument(self, kind: int, elements: ctypes.Array[Any], length: int) -> Argument:
        """An argument that refers to the memory of its elements, which live as long as the kernel."""
        self.keep_alive.append(elements)
        return Argument(kind=kind, data=ctypes.addressof(elements), integer=length)

    def raise_for_error(self, failed: int) -> None:
        """Raise the simulator's error of a failed call."""
        if failed:
            code, addresses, text = (self.simulator.simulator_error().decode(errors="replace") + "\t\t").split("\t")[:3]
            raise CandidateError("raised", "\t".join(["simulator", code, addresses, text]))


class CopiedTensors:
    """Copies of inputs, which an operator may change: every call begins with fresh ones."""

    def __init__(self, inputs: Sequence[Array]) -> None:
        self.inputs = inputs
        self.pairs: list[tuple[Array, Array]] = []

    def add(self, index: int) -> Argument:
        """A copy of an input, in shared memory, because only that can be mapped at the kernel's address."""
        original = self.inputs[index]
        memory = np.frombuffer(mmap.mmap(-1, max(1, original.data.nbytes)), original.data.dtype, original.data.size)
        copied = original._replace(data=memory.reshape(original.data.shape))
        self.pairs.append((original, copied))
        return with_flags(tensor_argument(copied), IS_COPY)

    def refresh(self) -> None:
        """Copy the inputs again."""
        for original, copied in self.pairs:
            copied.data[...] = original.data


def with_flags(argument: Argument, flags: int) -> Argument:
    """The same tensor with other flags."""
    made = Argument.from_buffer_copy(argument)
    made.flags = flags
    return made


def argument_array(arguments: Sequence[Argument]) -> Any:
    """A C array with at least one element."""
    return (Argument * max(1, len(arguments)))(*arguments)


def tensor_argument(array: Array) -> Argument:
    """A tensor argument that refers to the array's memory."""
    if array.data.ndim > MAX_AXES:
        raise CandidateError("unsupported", f"{array.name} has more than {MAX_AXES} axes, which the simulator does not support")
    argument = Argument(kind=TENSOR, dtype=DTYPES.index(array.dtype), rank=array.data.ndim, data=array.data.ctypes.data)
    for axis, size in enumerate(array.data.shape):
        argument.dims[axis] = size
    return argument


def scalar_argument(kind: str, value: float) -> Argument:
    """A scalar argument of the signature."""
    return Argument(kind={"int": INTEGER, "float": NUMBER, "bool": BOOLEAN}[kind], integer=int(value), number=float(value))
