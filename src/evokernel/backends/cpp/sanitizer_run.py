"""Calls a candidate that was built with AddressSanitizer, with everything around its tensors out of bounds. Runs in the child."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evokernel.backends.cpp.loader import CppKernel
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.protocols import Arguments, Array

LEAKS = 4
"""Calls in a row that leave memory behind: what is kept for later calls is allocated once."""


class Runtime(NamedTuple):
    """Functions of AddressSanitizer."""

    poison: Callable[[int, int], None]
    """Forbids so many bytes from an address on."""
    allocated: Callable[[], int]
    """Bytes allocated and not freed."""


@lru_cache
def runtime() -> Runtime | None:
    """AddressSanitizer, where it was loaded with the process."""
    library = ctypes.CDLL(None)
    try:
        poison, allocated = library["__asan_poison_memory_region"], library["__sanitizer_get_current_allocated_bytes"]
    except AttributeError:
        return None
    poison.argtypes, poison.restype = [ctypes.c_void_p, ctypes.c_size_t], None
    allocated.restype = ctypes.c_size_t
    return Runtime(poison, allocated)


def is_watched() -> bool:
    """Whether this process runs with the sanitizer."""
    return runtime() is not None


class WatchedKernel(CppKernel):
    """A kernel that may touch its tensors, what it allocates, and nothing else."""

    def __init__(self, library: Path) -> None:
        super().__init__(library)
        self.leaked: list[int] = []

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        call, watcher = super().bind(arguments), runtime()
        fence(arguments.inputs)
        fence(arguments.outputs)
        for array, shape in zip((*arguments.inputs, *arguments.outputs), self.shapes[-1], strict=True):
            tell(f"{array.name}_shape", shape)
        assert watcher is not None
        allocated = watcher.allocated

        def watched() -> None:
            before = allocated()
            call()
            self.leaked.append(allocated() - before)
            if len(self.leaked) >= LEAKS and min(self.leaked[-LEAKS:]) > 0:
                raise CandidateError("leak", "every call leaves memory allocated: free what you allocate, or keep it for the next call")

        return watched


def fence(arrays: tuple[Array, ...]) -> None:
    """Forbids what lies between the tensors of a mapping."""
    watcher = runtime()
    if not arrays or watcher is None:
        return
    mapping = mapped(arrays[0].data)
    start = address = np.frombuffer(mapping, np.uint8).ctypes.data
    for array in sorted(arrays, key=lambda array: array.data.ctypes.data):
        watcher.poison(address, array.data.ctypes.data - address)
        address = array.data.ctypes.data + array.data.nbytes
        tell(array.name, array.data)
    watcher.poison(address, start + len(mapping) - address)


def tell(name: str, array: np.ndarray) -> None:
    """Where an array lies, for whoever reads a report."""
    os.write(2, f"tensor {name} {array.ctypes.data:#x} {array.nbytes}\n".encode())


def mapped(array: np.ndarray) -> mmap.mmap:
    """The mapping an array looks at."""
    base: object = array
    while not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else base.base  # type: ignore[attr-defined]
    return base
