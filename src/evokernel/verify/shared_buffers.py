"""Memory the judge shares with the child: inputs the kernel can only read, outputs between guard bands, poisoned before a run."""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from random import Random
from typing import NamedTuple

import numpy as np

from evokernel.core.errors import InfraError
from evokernel.core.protocols import Array
from evokernel.core.records import Tensor

ALIGN, GUARD, PAGE = 64, 1024, mmap.PAGESIZE
GUARD_BYTE = 0xC5
NAN_BYTE, OTHER_BYTE = 0xFF, 0x41
"""Around inputs: not a number in every floating-point type; a small number in most."""
MARKS = 16
NAN_BITS = {"float64": 0x7FF8 << 48, "float32": 0x7FC0 << 16, "float16": 0x7E00, "bfloat16": 0x7FC0}
PAYLOAD_BITS = {"float64": 50, "float32": 21, "float16": 8, "bfloat16": 5}
STORED = {"bfloat16": "uint16"}


class Place(NamedTuple):
    """Where a tensor lies, counted from the start of its slot's span."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def kind(self) -> np.dtype[np.generic]:
        return np.dtype(STORED.get(self.dtype, self.dtype))

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.kind.itemsize


class BufferSlot(NamedTuple):
    """Room for one call's tensors."""

    number: int
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    in_span: tuple[int, int]
    """Start and length, in whole pages."""
    out_span: tuple[int, int]


class Shared:
    """Anonymous memory with a descriptor to hand on."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.used = max(PAGE, up(capacity, PAGE)), 0
        try:
            self.descriptor = self.open()
            os.ftruncate(self.descriptor, self.capacity)
            seal(self.descriptor)
            self.memory = mmap.mmap(self.descriptor, self.capacity)
        except OSError as error:
            raise InfraError(f"no {capacity >> 20} MiB of shared memory: {error}") from error
        self.bytes = np.frombuffer(self.memory, np.uint8)

    def open(self) -> int:
        """A memory file, or a nameless one in the fastest folder that can be written."""
        if hasattr(os, "memfd_create"):
            return os.memfd_create("evokernel", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.dup(file.fileno())

    def take(self, nbytes: int) -> tuple[int, int]:
        """The next free span, in whole pages."""
        start, length = self.used, max(PAGE, up(nbytes, PAGE))
        if start + length > self.capacity:
            raise InfraError(f"{self.capacity >> 10} KiB of shared memory are not enough for another {length >> 10} KiB")
        self.used += length
        return start, length

    def close(self) -> None:
        del self.bytes
        with suppress(BufferError):  # where an array still looks at it, the memory goes when that does
            self.memory.close()
        os.close(self.descriptor)


class Arena:
    """The inputs and outputs of all slots of one child."""

    def __init__(self, in_bytes: int, out_bytes: int, seed: int) -> None:
        self.inputs, self.outputs = Shared(in_bytes), Shared(out_bytes)
        self.random = Random(seed)
        self.slots: list[BufferSlot] = []
        self.poisons: dict[int, list[np.ndarray]] = {}

    def slot(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> BufferSlot:
        """Room for tensors of these shapes."""
        in_places, in_bytes = layout(inputs)
        out_places, out_bytes = layout(outputs)
        slot = BufferSlot(len(self.slots), in_places, out_places, self.inputs.take(in_bytes), self.outputs.take(out_bytes))
        self.slots.append(slot)
        self.surround(slot, NAN_BYTE)
        return slot

    def fill(self, slot: BufferSlot, inputs: Sequence[Array]) -> None:
        """Writes a case's inputs; the judge keeps its own."""
        for place, array in zip(slot.inputs, inputs, strict=True):
            at(self.inputs, slot.in_span[0], place)[...] = array.data

    def surround(self, slot: BufferSlot, byte: int) -> None:
        """Fills what lies before, between and after the inputs."""
        for start, end in gaps(slot.inputs, slot.in_span):
            self.inputs.bytes[start:end] = byte

    def changed(self, slot: BufferSlot, inputs: Sequence[Array]) -> list[str]:
        """The inputs that are no longer what was given."""
        start = slot.in_span[0]
        places = [self.inputs.bytes[start + place.offset : start + place.offset + place.nbytes] for place in slot.inputs]
        return [
            f"`{array.name}`"
            for found, array in zip(places, inputs, strict=True)
            if not np.array_equal(found, np.frombuffer(np.ascontiguousarray(array.data), np.uint8))
        ]

    def restore(self, slot: BufferSlot, results: Sequence[np.ndarray]) -> None:
        """Puts outputs back as they were found."""
        for place, result in zip(slot.outputs, results, strict=True):
            at(self.outputs, slot.out_span[0], place)[...] = result

    def poison(self, slot: BufferSlot) -> None:
        """Outputs that are not numbers, and fresh guard bands around them."""
        start, length = slot.out_span
        self.outputs.bytes[start : start + length] = GUARD_BYTE
        self.poisons[slot.number] = [poison(place, self.random) for place in slot.outputs]
        for place, pattern in zip(slot.outputs, self.poisons[slot.number], strict=True):
            at(self.outputs, start, place).view(pattern.dtype)[...] = pattern

    def marks(self, slot: BufferSlot) -> list[tuple[int, int, int]]:
        """Elements to spoil between the calls of a window: output, element, bits. A kernel would have to look at all to know."""
        filled = [index for index, place in enumerate(slot.outputs) if place.nbytes]
        chosen = [self.random.choice(filled) for _ in range(MARKS)] if filled else []
        bits = [int(pattern) for pattern in self.poisons[slot.number]]
        return [(index, self.random.randrange(prod(slot.outputs[index].shape)), bits[index]) for index in chosen]

    def results(self, slot: BufferSlot) -> list[np.ndarray]:
        """Copies of the outputs, which the child can no longer change."""
        return [at(self.outputs, slot.out_span[0], place).copy() for place in slot.outputs]

    def trespassed(self, slot: BufferSlot) -> list[str]:
        """The outputs next to which something was written, and on which side."""
        found = []
        for index, (start, end) in enumerate(gaps(slot.outputs, slot.out_span)):
            band = self.outputs.bytes[start:end]
            hit = np.flatnonzero(band != GUARD_BYTE)
            if hit.size:
                near_end = index == len(slot.outputs) or (index > 0 and hit[0] < band.size - hit[-1])
                name = slot.outputs[index - 1 if near_end else index].name
                distance = int(hit[0]) if near_end else int(band.size - 1 - hit[-1])
                side = "after the end" if near_end else "before the start"
                found.append(f"{f'{distance} bytes' if distance else 'right'} {side} of `{name}`")
        return found

    def close(self) -> None:
        self.inputs.close()
        self.outputs.close()


def gaps(places: Sequence[Place], span: tuple[int, int]) -> list[tuple[int, int]]:
    """From where to where there is no tensor: before the first, between, after the last."""
    start, length = span
    edges = [0, *(edge for place in places for edge in (place.offset, place.offset + place.nbytes)), length]
    return [(start + edges[2 * index], start + edges[2 * index + 1]) for index in range(len(places) + 1)]


def seal(descriptor: int) -> None:
    """Nobody can change its length any more: reading memory that someone cut off would kill the judge."""
    if hasattr(fcntl, "F_ADD_SEALS"):
        with suppress(OSError):  # not a memory file
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)


def up(value: int, unit: int) -> int:
    """Rounded up to whole units."""
    return -(-value // unit) * unit


def layout(arrays: Sequence[Array]) -> tuple[tuple[Place, ...], int]:
    """Places with a band before, between and after; starts are staggered, or all tensors would compete for the same cache sets."""
    places, cursor = [], GUARD
    for index, array in enumerate(arrays):
        places.append(Place(array.name, array.dtype, tuple(array.data.shape), cursor))
        cursor = up(cursor + array.data.nbytes + GUARD, ALIGN) + ALIGN * (index % 7)
    return tuple(places), cursor


def span(arrays: Sequence[Array]) -> int:
    """How much of an arena such tensors take."""
    return max(PAGE, up(layout(arrays)[1], PAGE))


def blank(tensor: Tensor) -> Array:
    """A tensor of a signature without its memory."""
    return Array(tensor.name, tensor.dtype, np.broadcast_to(np.zeros((), STORED.get(tensor.dtype, tensor.dtype)), tensor.shape))


def at(shared: Shared, start: int, place: Place) -> np.ndarray:
    """A tensor's place as an array to read and write."""
    return np.ndarray(place.shape, place.kind, shared.memory, start + place.offset)


def poison(place: Place, random: Random) -> np.ndarray:
    """One element's worth of bits: a NaN with a payload nobody computes, or any pattern for integers."""
    width = place.kind.itemsize
    if place.dtype in NAN_BITS:
        bits = NAN_BITS[place.dtype] | random.getrandbits(PAYLOAD_BITS[place.dtype]) | 1
    else:
        bits = random.getrandbits(8 * width) | 0xA2  # never 0 or 1, so that a bool can be told as well
    return np.array(bits, f"uint{8 * width}")
