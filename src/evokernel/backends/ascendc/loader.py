"""Runs a built operator on the simulator through ctypes, in the candidate process."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokernel.backends.ascendc.tensor_steps import apply_steps
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments, Array

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
LEVELS = ("fast", "hardware", "strict")
ABSENT, TENSOR, INTEGER, NUMBER, BOOLEAN = range(5)
MAX_AXES = 8


class Argument(ctypes.Structure):
    """The C struct `SimulatorArgument` of `bind.h`."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("pad", ctypes.c_int32),
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
            return self.bind_function(self.plan["function"].encode(), arguments.inputs, tensors, numbers, outputs, count)
        inputs, attributes, name = argument_array(tensors), argument_array(numbers), self.plan["op"].encode()
        return lambda: self.raise_for_error(
            self.simulator.simulator_run(name, inputs, len(tensors), attributes, len(numbers), outputs, count)
        )

    def bind_function(
        self, function: bytes, arrays: Sequence[Array], tensors: Sequence[Argument], numbers: Sequence[Argument], outputs: Any, count: int
    ) -> Callable[[], None]:
        """The call of a bound function. Tensors that a model prepares are prepared before every call, because their values may change."""

        def call() -> None:
            prepared = [prepare_argument(one, arrays) for one in self.plan["call"]]
            given = argument_array(
                [
                    tensor_argument(own) if own else bound_argument(one, tensors, numbers, arrays)
                    for one, own in zip(self.plan["call"], prepared)
                ]
            )
            self.raise_for_error(self.simulator.simulator_call(function, given, len(self.plan["call"]), outputs, count))

        return call

    def raise_for_error(self, failed: int) -> None:
        """Raise the simulator's error of a failed call."""
        if failed:
            code, addresses, text = (self.simulator.simulator_error().decode(errors="replace") + "\t\t").split("\t")[:3]
            raise CandidateError("raised", "\t".join(["simulator", code, addresses, text]))


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


def bound_argument(
    specification: Sequence[Any], tensors: Sequence[Argument], numbers: Sequence[Argument], arrays: Sequence[Array] = ()
) -> Argument:
    """Resolve an argument of a bound function.

    Specifications are `["tensor", 0]`, `["number", 1]`, `["int", 3]`, `["float", 0.5]`, `["bool", true]`, `["absent"]` and
    `["size", ["tensor", 0], 1]`.
    """
    kind, *rest = specification
    if kind in ("tensor", "number"):
        return (tensors if kind == "tensor" else numbers)[int(rest[0])]
    if kind == "size":
        return scalar_argument("int", axis_size(specification, arrays))
    return scalar_argument(kind, rest[0]) if rest else Argument(kind=ABSENT)


def prepare_argument(specification: Sequence[Any], arrays: Sequence[Array]) -> Array | None:
    """The array of a tensor after its steps; None for an argument without steps."""
    kind, *rest = specification
    if kind != "tensor" or len(rest) == 1:
        return None
    array, steps = arrays[int(rest[0])], rest[1:]
    dtype = next((step[1] for step in reversed(steps) if step[0] == "cast"), array.dtype)
    try:
        return array._replace(dtype=dtype, data=apply_steps(array.data, steps, lambda size: axis_size(size, arrays)))
    except (ValueError, IndexError, TypeError) as error:
        raise CandidateError("raised", f"forward in model_src cannot prepare {array.name} of shape {array.data.shape}: {error}") from error


def axis_size(specification: Sequence[Any], arrays: Sequence[Array]) -> int:
    """The size of an axis of an argument: `["size", ["tensor", 0], 1]`."""
    _, tensor, axis = specification
    return int((prepare_argument(tensor, arrays) or arrays[int(tensor[1])]).data.shape[int(axis)])
