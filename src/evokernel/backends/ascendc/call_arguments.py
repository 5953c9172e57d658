"""Resolves the arguments of a bound function, written as in `CallArgument` of project.py, in the candidate process."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evokernel.backends.ascendc.arguments import (
    ABSENT,
    INTEGERS,
    IS_COPY,
    IS_ON_HOST,
    NUMBERS,
    TENSORS,
    TEXT,
    Argument,
    argument_array,
    scalar_argument,
    tensor_argument,
)
from evokernel.backends.ascendc.tensor_steps import apply_steps, final_dtype, has_copying_step
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments, Array

TENSOR_FLAGS = {"tensor": 0, "copy": IS_COPY, "host": IS_ON_HOST}
ELEMENT_KINDS = {"tensors": "tensor", "copies": "copy"}


class CallArguments:
    """The arguments of one call. They are resolved again before every call, because the values of the inputs may change."""

    def __init__(self, specifications: Sequence[Sequence[Any]], arguments: Arguments) -> None:
        self.specifications, self.arrays = specifications, arguments.inputs
        self.numbers = [scalar_argument(kind, value) for _, kind, value in arguments.scalars]
        self.copies: dict[tuple[int, int], Array] = {}
        """Copies that the operator may change, by the places of the argument in the call and of the tensor in the argument."""
        self.keep_alive: list[object] = []

    def resolve(self) -> Any:
        """The C array of the arguments, with fresh copies of the inputs. It is valid until the next call of this function."""
        self.keep_alive = []
        return argument_array([self.resolve_argument(one, place) for place, one in enumerate(self.specifications)])

    def copied_bytes(self) -> int:
        """Bytes of the inputs that every call copies completely: for the operator, or to change the order or type of their elements."""
        tensors = [one for specification in self.specifications for one in list_tensors(specification)]
        return sum(self.arrays[int(index)].data.nbytes for kind, index, *steps in tensors if kind == "copy" or has_copying_step(steps))

    def resolve_argument(self, specification: Sequence[Any], place: int) -> Argument:
        kind, *rest = specification
        if kind == "number":
            return self.numbers[int(rest[0])]
        if kind in TENSOR_FLAGS:
            return self.resolve_tensor(specification, (place, 0))
        if kind in ELEMENT_KINDS:
            tensors = [self.resolve_tensor(element, (place, index)) for index, element in enumerate(list_tensors(specification))]
            return self.list_argument(TENSORS, argument_array(tensors), len(tensors))
        if kind == "text":
            encoded = rest[0].encode()
            return self.list_argument(TEXT, ctypes.create_string_buffer(encoded), len(encoded))
        if kind in ("ints", "floats"):
            numbers = [axis_size(one, self.arrays) if isinstance(one, list | tuple) else one for one in rest]
            element_type = ctypes.c_int64 if kind == "ints" else ctypes.c_double
            return self.list_argument(INTEGERS if kind == "ints" else NUMBERS, (element_type * len(numbers))(*numbers), len(numbers))
        if kind == "size":
            return scalar_argument("int", axis_size(specification, self.arrays))
        return scalar_argument(kind, rest[0]) if rest else Argument(kind=ABSENT)

    def resolve_tensor(self, specification: Sequence[Any], place: tuple[int, int]) -> Argument:
        """A tensor after its steps: the memory of the input, a copy of it, or a tensor in the memory of the host."""
        array = prepare_argument(specification, self.arrays) or self.arrays[int(specification[1])]
        if specification[0] == "copy":
            array = self.copy_array(array, place)
        self.keep_alive.append(array)
        argument = tensor_argument(array)
        argument.flags = TENSOR_FLAGS[specification[0]]
        return argument

    def copy_array(self, original: Array, place: tuple[int, int]) -> Array:
        """A copy in shared memory, because only that can be mapped at the kernel's address."""
        if place not in self.copies:
            memory = np.frombuffer(mmap.mmap(-1, max(1, original.data.nbytes)), original.data.dtype, original.data.size)
            self.copies[place] = original._replace(data=memory.reshape(original.data.shape))
        self.copies[place].data[...] = original.data
        return self.copies[place]

    def list_argument(self, kind: int, elements: ctypes.Array[Any], length: int) -> Argument:
        """An argument that refers to the memory of its elements, which live until the next call."""
        self.keep_alive.append(elements)
        return Argument(kind=kind, data=ctypes.addressof(elements), integer=length)


def list_tensors(specification: Sequence[Any]) -> list[Sequence[Any]]:
    """The tensors of an argument, each as an argument of its own."""
    kind, *rest = specification
    if kind not in ELEMENT_KINDS:
        return [specification] if kind in TENSOR_FLAGS else []
    return [[ELEMENT_KINDS[kind], *(one if isinstance(one, list | tuple) else [one])] for one in rest]


def prepare_argument(specification: Sequence[Any], arrays: Sequence[Array]) -> Array | None:
    """The array of a tensor after its steps; None for an argument without steps."""
    kind, *rest = specification
    if kind not in TENSOR_FLAGS or len(rest) == 1:
        return None
    array, steps = arrays[int(rest[0])], rest[1:]
    try:
        return array._replace(
            dtype=final_dtype(array.dtype, steps), data=apply_steps(array.data, steps, lambda size: axis_size(size, arrays))
        )
    except (ValueError, IndexError, TypeError) as error:
        raise CandidateError("raised", f"forward in model_src cannot prepare {array.name} of shape {array.data.shape}: {error}") from error


def axis_size(specification: Sequence[Any], arrays: Sequence[Array]) -> int:
    """The size of an axis of an argument: `["size", ["tensor", 0], 1]`."""
    _, tensor, axis = specification
    return int((prepare_argument(tensor, arrays) or arrays[int(tensor[1])]).data.shape[int(axis)])
