"""Runs a built operator on the twin, through ctypes. In the child, next to the candidate."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.protocols import Arguments, Array

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
LEVELS = ("fast", "hardware", "strict")
ABSENT, TENSOR, INTEGER, NUMBER, BOOLEAN = range(5)
MOST_AXES = 8


class Argument(ctypes.Structure):
    """As `operator.cpp` has it."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("pad", ctypes.c_int32),
        ("dims", ctypes.c_int64 * MOST_AXES),
        ("data", ctypes.c_void_p),
        ("integer", ctypes.c_int64),
        ("number", ctypes.c_double),
    )


def open_twin(library: Path) -> None:
    """Before the process is closed in: the twin handles signals, and needs what only then can be asked for."""
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL).twin_open()


class AscendcKernel:
    """An operator and the twin it runs on."""

    def __init__(self, workdir: Path, runtime: str, library: str, level: str, chip: str, run_s: float) -> None:
        self.twin = ctypes.CDLL(str(workdir / runtime), mode=ctypes.RTLD_GLOBAL)
        self.twin.twin_error.restype = self.twin.twin_report.restype = ctypes.c_char_p
        self.twin.twin_level(LEVELS.index(level))
        self.twin.twin_budget(ctypes.c_double(run_s))
        if unknown := self.twin.twin_configure(chip.encode()):
            raise ValueError(f"the twin does not know {unknown} of the chip's settings")
        try:
            self.operator = ctypes.CDLL(str(workdir / library))
        except OSError as error:
            raise CandidateError("symbol", f"the built operator cannot be loaded: {str(error).replace(str(workdir) + '/', '')}") from error
        self.plan = json.loads((workdir / "plan.json").read_text())
        self.twin.twin_mark(self.plan.get("mark", "").encode())
        self.kept: list[object] = []

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """Everything is converted here, once."""
        tensors = [tensor(array) for array in arguments.inputs]
        numbers = [number(kind, value) for _, kind, value in arguments.scalars]
        outputs = listed([tensor(array) for array in arguments.outputs])
        self.kept += [arguments, outputs]
        count = len(arguments.outputs)
        if self.plan["function"]:
            passed = listed([chosen(one, tensors, numbers) for one in self.plan["call"]])
            function = self.plan["function"].encode()
            return lambda: self.judge(self.twin.twin_call(function, passed, len(passed), outputs, count))
        given, attributes, name = listed(tensors), listed(numbers), self.plan["op"].encode()
        return lambda: self.judge(self.twin.twin_run(name, given, len(tensors), attributes, len(numbers), outputs, count))

    def judge(self, failed: int) -> None:
        """A broken rule ends the call."""
        if failed:
            code, addresses, text = (self.twin.twin_error().decode(errors="replace") + "\t\t").split("\t")[:3]
            raise CandidateError("raised", "\t".join(["twin", code, addresses, text]))


def listed(arguments: Sequence[Argument]) -> Any:
    """An array of C; never one without elements."""
    return (Argument * max(1, len(arguments)))(*arguments)


def tensor(array: Array) -> Argument:
    """A tensor where it lies."""
    if array.data.ndim > MOST_AXES:
        raise CandidateError("unsupported", f"{array.name} has more than {MOST_AXES} axes")
    made = Argument(kind=TENSOR, dtype=DTYPES.index(array.dtype), rank=array.data.ndim, data=array.data.ctypes.data)
    for axis, size in enumerate(array.data.shape):
        made.dims[axis] = size
    return made


def number(kind: str, value: float) -> Argument:
    """A scalar of the signature."""
    return Argument(kind={"int": INTEGER, "float": NUMBER, "bool": BOOLEAN}[kind], integer=int(value), number=float(value))


def chosen(wanted: Sequence[Any], tensors: Sequence[Argument], numbers: Sequence[Argument]) -> Argument:
    """An argument of a bound function: `["tensor", 0]`, `["number", 1]`, `["int", 3]`, `["float", 0.5]`, `["bool", true]`, `["absent"]`."""
    kind, *rest = wanted
    if kind in ("tensor", "number"):
        return (tensors if kind == "tensor" else numbers)[int(rest[0])]
    return number(kind, rest[0]) if rest else Argument(kind=ABSENT)
