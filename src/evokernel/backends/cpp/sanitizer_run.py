"""Calls a kernel built with AddressSanitizer, with all memory around its tensors poisoned. Runs in the candidate process."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evokernel.backends.native.loader import NativeKernel
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments, Array

LEAKS = 4
"""Consecutive calls that leak memory before a leak is reported. Memory that a kernel keeps for later calls is allocated once."""


class AsanRuntime(NamedTuple):
    """Functions of AddressSanitizer."""

    poison: Callable[[int, int], None]
    """Forbids access to N bytes from an address."""
    allocated_bytes: Callable[[], int]
    """Bytes allocated and not freed."""


@lru_cache
def find_asan_runtime() -> AsanRuntime | None:
    """Returns AddressSanitizer's functions if it was loaded with the process, else None."""
    library = ctypes.CDLL(None)
    try:
        poison, allocated_bytes = library["__asan_poison_memory_region"], library["__sanitizer_get_current_allocated_bytes"]
    except AttributeError:
        return None
    poison.argtypes, poison.restype = [ctypes.c_void_p, ctypes.c_size_t], None
    allocated_bytes.restype = ctypes.c_size_t
    return AsanRuntime(poison, allocated_bytes)


def is_sanitized_process() -> bool:
    """Whether this process runs with AddressSanitizer."""
    return find_asan_runtime() is not None


class SanitizedKernel(NativeKernel):
    """A kernel that may access only its tensors and the memory it allocates."""

    def __init__(self, library: Path) -> None:
        super().__init__(library)
        self.leaked_bytes: list[int] = []

    def bind(self, arguments: Arguments) -> Callable[[], None]:
        call, asan = super().bind(arguments), find_asan_runtime()
        poison_around(arguments.inputs)
        poison_around(arguments.outputs)
        for array, shape in zip((*arguments.inputs, *arguments.outputs), self.shapes[-1], strict=True):
            print_tensor_address(f"{array.name}_shape", shape)
        assert asan is not None
        allocated_bytes = asan.allocated_bytes

        def call_and_check_leaks() -> None:
            before = allocated_bytes()
            call()
            self.leaked_bytes.append(allocated_bytes() - before)
            if len(self.leaked_bytes) >= LEAKS and min(self.leaked_bytes[-LEAKS:]) > 0:
                raise CandidateError("leak", "every call leaks memory; free each allocation, or keep one for later calls")

        return call_and_check_leaks


def poison_around(arrays: tuple[Array, ...]) -> None:
    """Poisons the memory between the tensors of a mapping."""
    asan = find_asan_runtime()
    if not arrays or asan is None:
        return
    mapping = underlying_mapping(arrays[0].data)
    start = address = np.frombuffer(mapping, np.uint8).ctypes.data
    for array in sorted(arrays, key=lambda array: array.data.ctypes.data):
        asan.poison(address, array.data.ctypes.data - address)
        address = array.data.ctypes.data + array.data.nbytes
        print_tensor_address(array.name, array.data)
    asan.poison(address, start + len(mapping) - address)


def print_tensor_address(name: str, array: np.ndarray) -> None:
    """Writes an array's address to stderr, so that reports can be related to tensors."""
    os.write(2, f"tensor {name} {array.ctypes.data:#x} {array.nbytes}\n".encode())


def underlying_mapping(array: np.ndarray) -> mmap.mmap:
    """Returns the memory mapping that an array views."""
    base: object = array
    while not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else base.base  # type: ignore[attr-defined]
    return base
