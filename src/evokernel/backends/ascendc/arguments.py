"""Arguments in the form of the simulator's C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Array

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")
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
