"""Calls a kernel with a C entry point through ctypes. Runs in the candidate process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments


class NativeKernel:
    """The loaded entry point of a candidate."""

    def __init__(self, library: Path) -> None:
        try:
            self.entry = ctypes.CDLL(str(library)).kernel
        except AttributeError as error:
            raise CandidateError(
                "symbol", 'there is no function `kernel` with C linkage; define it as extern "C" void kernel(...)'
            ) from error
        except OSError as error:
            text = str(error).replace(str(library.parent) + "/", "")
            if "memory" in text or "static TLS" in text:
                raise CandidateError("memory", f"the kernel's static data does not fit in memory: {text}") from error
            raise CandidateError("symbol", f"the built kernel cannot be loaded: {text}") from error
        self.entry.restype = None
        self.shapes: list[list[np.ndarray]] = []

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        """Converts all arguments once, so that a call costs about a microsecond."""
        values: list[object] = []
        shapes = [np.array(array.data.shape or (0,), np.int64) for array in (*arguments.inputs, *arguments.outputs)]
        pointers = [
            (ctypes.c_void_p(array.data.ctypes.data), ctypes.c_void_p(shape.ctypes.data))
            for array, shape in zip((*arguments.inputs, *arguments.outputs), shapes, strict=True)
        ]
        for pair in pointers[: len(arguments.inputs)]:
            values += pair
        for _, kind, value in arguments.scalars:
            values.append(
                ctypes.c_int64(int(value)) if kind == "int" else ctypes.c_bool(bool(value)) if kind == "bool" else ctypes.c_double(value)
            )
        for pair in pointers[len(arguments.inputs) :]:
            values += pair
        entry, call_arguments = self.entry, tuple(values)
        self.shapes.append(shapes)  # separate arrays, so that a sanitizer sees their ends

        def call() -> None:
            entry(*call_arguments)

        return call
