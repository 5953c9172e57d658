"""Memory shared with the candidate process: read-only inputs, and outputs between guard bands that are poisoned before every run."""

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

from evokernel.core.backend import Array
from evokernel.core.errors import InfraError
from evokernel.core.records import Tensor

ALIGN_BYTES, GUARD_BYTES, PAGE_BYTES = 64, 1024, mmap.PAGESIZE
GUARD_BYTE = 0xC5
NAN_GAP_BYTE, NUMBER_GAP_BYTE = 0xFF, 0x41
"""Fillers around the inputs: NaN in every floating-point type, and a small number in most."""
MARK_COUNT = 16
NAN_BITS = {"float64": 0x7FF8 << 48, "float32": 0x7FC0 << 16, "float16": 0x7E00, "bfloat16": 0x7FC0, "complex64": 0x7FF8 << 48}
PAYLOAD_BITS = {"float64": 50, "float32": 21, "float16": 8, "bfloat16": 5, "complex64": 50}
STORAGE_DTYPES = {"bfloat16": "uint16"}


class TensorLayout(NamedTuple):
    """The position of a tensor, counted from the start of its slot's span."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def storage_dtype(self) -> np.dtype[np.generic]:
        """The numpy type that stores the elements; bfloat16 is stored as uint16."""
        return np.dtype(STORAGE_DTYPES.get(self.dtype, self.dtype))

    @property
    def nbytes(self) -> int:
        """The size of the tensor in bytes."""
        return prod(self.shape) * self.storage_dtype.itemsize


class BufferSlot(NamedTuple):
    """The memory for one call's tensors."""

    slot_id: int
    inputs: tuple[TensorLayout, ...]
    outputs: tuple[TensorLayout, ...]
    input_span: tuple[int, int]
    """Start and length, in full pages."""
    output_span: tuple[int, int]


class SharedMemory:
    """Anonymous memory with a descriptor to pass to another process."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.used_bytes = max(PAGE_BYTES, round_up(capacity, PAGE_BYTES)), 0
        try:
            self.descriptor = self.open_descriptor()
            os.ftruncate(self.descriptor, self.capacity)
            seal_size(self.descriptor)
            self.memory = mmap.mmap(self.descriptor, self.capacity)
        except OSError as error:
            raise InfraError(f"cannot allocate {capacity >> 20} MiB of shared memory: {error}") from error
        self.bytes = np.frombuffer(self.memory, np.uint8)

    def open_descriptor(self) -> int:
        """Open a memory file, or an unnamed file in the fastest writable folder."""
        if hasattr(os, "memfd_create"):
            return os.memfd_create("evokernel", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryFile(dir=folder) as file:
            return os.dup(file.fileno())

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """Return the next free span as start and length, in full pages."""
        start, length = self.used_bytes, max(PAGE_BYTES, round_up(nbytes, PAGE_BYTES))
        if start + length > self.capacity:
            raise InfraError(f"the shared memory of {self.capacity >> 10} KiB has no room for another {length >> 10} KiB")
        self.used_bytes += length
        return start, length

    def close(self) -> None:
        del self.bytes
        with suppress(BufferError):  # an array still views the memory, which is then freed together with that array
            self.memory.close()
        os.close(self.descriptor)


class Arena:
    """The inputs and outputs of all slots of one candidate process."""

    def __init__(self, in_bytes: int, out_bytes: int, seed: int) -> None:
        self.inputs, self.outputs = SharedMemory(in_bytes), SharedMemory(out_bytes)
        self.random = Random(seed)
        self.slots: list[BufferSlot] = []
        self.poisons: dict[int, list[np.ndarray]] = {}

    def add_slot(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> BufferSlot:
        """Allocate a slot for tensors of these shapes."""
        input_layouts, input_bytes = place_tensors(inputs)
        output_layouts, output_bytes = place_tensors(outputs)
        slot = BufferSlot(
            len(self.slots), input_layouts, output_layouts, self.inputs.allocate(input_bytes), self.outputs.allocate(output_bytes)
        )
        self.slots.append(slot)
        self.fill_input_gaps(slot, NAN_GAP_BYTE)
        return slot

    def add_sparse_slot(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> BufferSlot:
        """Allocate a slot whose tensors take no memory until they are written; only the guard bands are."""
        slot = self.add_slot(inputs, outputs)
        for start, end in find_gaps(slot.outputs, slot.output_span):
            self.outputs.bytes[start:end] = GUARD_BYTE
        return slot

    def poison_boxes(self, slot: BufferSlot, boxes: Sequence[tuple[int, tuple[slice, ...]]]) -> None:
        """Fill boxes of the outputs, given as (output, slices), with patterns that no computation gives."""
        self.poisons[slot.slot_id] = [make_poison(layout, self.random) for layout in slot.outputs]
        for output, slices in boxes:
            pattern = self.poisons[slot.slot_id][output]
            view_tensor(self.outputs, slot.output_span[0], slot.outputs[output]).view(pattern.dtype)[slices] = pattern

    def write_inputs(self, slot: BufferSlot, inputs: Sequence[Array]) -> None:
        """Copy a case's inputs into a slot; the verifier keeps the originals."""
        for layout, array in zip(slot.inputs, inputs, strict=True):
            view_tensor(self.inputs, slot.input_span[0], layout)[...] = array.data

    def fill_input_gaps(self, slot: BufferSlot, byte: int) -> None:
        """Fill the bytes before, between and after the inputs."""
        for start, end in find_gaps(slot.inputs, slot.input_span):
            self.inputs.bytes[start:end] = byte

    def find_changed_inputs(self, slot: BufferSlot, inputs: Sequence[Array]) -> list[str]:
        """Return the names of inputs that differ from the originals."""
        start = slot.input_span[0]
        current = [self.inputs.bytes[start + layout.offset : start + layout.offset + layout.nbytes] for layout in slot.inputs]
        return [
            f"`{array.name}`"
            for data, array in zip(current, inputs, strict=True)
            if not np.array_equal(data, np.frombuffer(np.ascontiguousarray(array.data), np.uint8))
        ]

    def restore_outputs(self, slot: BufferSlot, results: Sequence[np.ndarray]) -> None:
        """Write earlier results back into the outputs."""
        for layout, result in zip(slot.outputs, results, strict=True):
            view_tensor(self.outputs, slot.output_span[0], layout)[...] = result

    def poison_outputs(self, slot: BufferSlot) -> None:
        """Fill the outputs with NaN patterns that no computation gives, and write new guard bands around them."""
        start, length = slot.output_span
        self.outputs.bytes[start : start + length] = GUARD_BYTE
        self.poisons[slot.slot_id] = [make_poison(layout, self.random) for layout in slot.outputs]
        for layout, pattern in zip(slot.outputs, self.poisons[slot.slot_id], strict=True):
            view_tensor(self.outputs, start, layout).view(pattern.dtype)[...] = pattern

    def choose_marks(self, slot: BufferSlot) -> list[tuple[int, int, int]]:
        """Choose output elements to spoil between the calls of a window, as (output, element, bits). To find them, a kernel would have to
        read all."""
        nonempty = [index for index, layout in enumerate(slot.outputs) if layout.nbytes]
        output_indices = [self.random.choice(nonempty) for _ in range(MARK_COUNT)] if nonempty else []
        bits = [int(pattern) for pattern in self.poisons[slot.slot_id]]
        return [(index, self.random.randrange(prod(slot.outputs[index].shape)), bits[index]) for index in output_indices]

    def copy_outputs(self, slot: BufferSlot) -> list[np.ndarray]:
        """Return copies of the outputs that the candidate process can no longer change."""
        return [view_tensor(self.outputs, slot.output_span[0], layout).copy() for layout in slot.outputs]

    def find_stray_writes(self, slot: BufferSlot) -> list[str]:
        """Describe writes into the guard bands: the distance, the side and the nearest output."""
        descriptions = []
        for index, (start, end) in enumerate(find_gaps(slot.outputs, slot.output_span)):
            band = self.outputs.bytes[start:end]
            changed_bytes = np.flatnonzero(band != GUARD_BYTE)
            if changed_bytes.size:
                near_end = index == len(slot.outputs) or (index > 0 and changed_bytes[0] < band.size - changed_bytes[-1])
                name = slot.outputs[index - 1 if near_end else index].name
                distance = int(changed_bytes[0]) if near_end else int(band.size - 1 - changed_bytes[-1])
                side = "after the end" if near_end else "before the start"
                descriptions.append(f"{f'{distance} bytes' if distance else 'immediately'} {side} of `{name}`")
        return descriptions

    def close(self) -> None:
        """Release both shared memories."""
        self.inputs.close()
        self.outputs.close()


def find_gaps(layouts: Sequence[TensorLayout], span: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the ranges that hold no tensor: before the first, between tensors, and after the last."""
    start, length = span
    edges = [0, *(edge for layout in layouts for edge in (layout.offset, layout.offset + layout.nbytes)), length]
    return [(start + edges[2 * index], start + edges[2 * index + 1]) for index in range(len(layouts) + 1)]


def seal_size(descriptor: int) -> None:
    """Seal the length of a memory file: reading memory that was truncated would kill the verifier."""
    if hasattr(fcntl, "F_ADD_SEALS"):
        with suppress(OSError):  # the descriptor is not a memory file
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)


def round_up(value: int, unit: int) -> int:
    """Round a value up to a multiple of a unit."""
    return -(-value // unit) * unit


def place_tensors(arrays: Sequence[Array]) -> tuple[tuple[TensorLayout, ...], int]:
    """Assign layouts with a guard band before, between and after; staggered starts keep tensors from competing for the same cache sets."""
    layouts, cursor = [], GUARD_BYTES
    for index, array in enumerate(arrays):
        layouts.append(TensorLayout(array.name, array.dtype, tuple(array.data.shape), cursor))
        cursor = round_up(cursor + array.data.nbytes + GUARD_BYTES, ALIGN_BYTES) + ALIGN_BYTES * (index % 7)
    return tuple(layouts), cursor


def compute_span_bytes(arrays: Sequence[Array]) -> int:
    """Return the bytes of an arena that such tensors need."""
    return max(PAGE_BYTES, round_up(place_tensors(arrays)[1], PAGE_BYTES))


def make_blank_array(tensor: Tensor) -> Array:
    """Return an array with the name, type and shape of a tensor and no memory for values."""
    return Array(tensor.name, tensor.dtype, np.broadcast_to(np.zeros((), STORAGE_DTYPES.get(tensor.dtype, tensor.dtype)), tensor.shape))


def view_tensor(shared: SharedMemory, start: int, layout: TensorLayout) -> np.ndarray:
    """Return a tensor as an array that can be read and written."""
    return np.ndarray(layout.shape, layout.storage_dtype, shared.memory, start + layout.offset)


def make_poison(layout: TensorLayout, random: Random) -> np.ndarray:
    """Return the bits of one poisoned element: a NaN with a random payload, or a random pattern for integers."""
    width = layout.storage_dtype.itemsize
    if layout.dtype in NAN_BITS:
        bits = NAN_BITS[layout.dtype] | random.getrandbits(PAYLOAD_BITS[layout.dtype]) | 1
    else:
        bits = random.getrandbits(8 * width) | 0xA2  # never 0 or 1, so that poison is recognizable in a bool
    return np.array(bits, f"uint{8 * width}")
