"""Checks every load, store and atomic of an interpreted launch: inside a tensor, and without a race between two programs.

The interpreter runs programs one after the other. A GPU runs them in any order and at the same time, so a program must not depend on what
another one of the launch does to memory, unless atomics order the two. These checks run beside the candidate's code: they find and explain
errors, and the verifier does not rely on them.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from typing import Any, NoReturn

import numpy as np
import torch
from triton._C.libtriton import ir
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from evokernel.core.errors import CandidateError

NOBODY, SEVERAL = -1, -2
FIX = "a GPU runs programs in any order: give every element one program that writes it, use atomics, or use two launches"


class TensorMemory:
    """The memory of one tensor during a launch, with the programs that used each element."""

    def __init__(self, name: str, is_input: bool, tensor: Any) -> None:
        storage = tensor.untyped_storage()
        self.name, self.start, self.item_bytes = name, storage.data_ptr(), tensor.element_size()
        self.end = self.start + storage.nbytes()
        self.is_input = is_input
        count = 0 if is_input else storage.nbytes() // self.item_bytes
        self.writer, self.reader, self.adder = (np.full(count, NOBODY, np.int32) for _ in range(3))
        self.written_at = np.zeros(count, np.int64)


class LaunchMemory:
    """The tensors of one launch, and the program that runs."""

    def __init__(self, tensors: list[TensorMemory], file: str) -> None:
        self.tensors = sorted(tensors, key=lambda one: one.start)
        self.starts = [one.start for one in self.tensors]
        self.file, self.program, self.clock = file, 0, 0
        self.released_at: dict[int, int] = {}
        """When each program last ordered its writes before an atomic."""
        self.acquired: list[np.ndarray] = []
        """The addresses of the atomics of this program so far."""

    def enter_program(self, builder: Any) -> None:
        """Note which program runs now."""
        (x, y, z), (_, height, depth) = builder.grid_idx, builder.grid_dim
        program = (x * height + y) * depth + z
        if program != self.program:
            self.program, self.acquired = program, []
        self.clock += 1

    def locate(self, addresses: np.ndarray, item_bytes: int, verb: str) -> TensorMemory:
        """Return the tensor that holds these addresses; raise if there is none."""
        low, high = int(addresses.min()), int(addresses.max()) + item_bytes
        place = bisect_right(self.starts, low) - 1
        if place >= 0 and high <= self.tensors[place].end:
            return self.tensors[place]
        nearest = min(
            self.tensors, key=lambda one: 0 if one.start < high and low < one.end else min(abs(one.start - high), abs(low - one.end))
        )
        ends = (nearest.start - low, "before the start") if low < nearest.start else (high - nearest.end, "past the end")
        count = -(-ends[0] // item_bytes)
        elements = "an element" if count == 1 else f"up to {count} elements"
        self.fail("out_of_bounds", f"{verb} {elements} {ends[1]} of `{nearest.name}`; mask the access or fix its offset")

    def note_load(self, addresses: np.ndarray, item_bytes: int, is_volatile: bool) -> None:
        tensor = self.locate(addresses, item_bytes, "reads")
        if tensor.is_input or item_bytes < tensor.item_bytes:
            return
        index = (addresses - np.uint64(tensor.start)) // np.uint64(tensor.item_bytes)
        if is_volatile:
            self.acquired.append(addresses)
            return
        self.refuse_other(tensor, index, tensor.writer, "reads an element that another program writes")
        self.refuse_other(tensor, index, tensor.adder, "reads an element that another program changes by an atomic")
        tensor.reader[index] = merge_program(tensor.reader[index], self.program)

    def note_store(self, tensor: TensorMemory, addresses: np.ndarray, item_bytes: int, differs: np.ndarray) -> None:
        """Check a store; `differs` marks the elements whose value changes."""
        if tensor.is_input or item_bytes < tensor.item_bytes:
            return
        index = (addresses - np.uint64(tensor.start)) // np.uint64(tensor.item_bytes)
        if differs.any():
            changed = index[differs]
            self.refuse_other(tensor, changed, tensor.writer, "writes another value to an element that another program writes")
            self.refuse_other(tensor, changed, tensor.reader, "writes an element that another program reads")
            self.refuse_other(tensor, changed, tensor.adder, "writes an element that another program changes by an atomic")
        tensor.writer[index], tensor.written_at[index] = self.program, self.clock

    def note_atomic(self, addresses: np.ndarray, item_bytes: int, is_ordered: bool) -> None:
        tensor = self.locate(addresses, item_bytes, "changes")
        if not tensor.is_input and item_bytes >= tensor.item_bytes:
            index = (addresses - np.uint64(tensor.start)) // np.uint64(tensor.item_bytes)
            self.refuse_other(tensor, index, tensor.writer, "changes by an atomic an element that another program writes with tl.store")
            self.refuse_other(tensor, index, tensor.reader, "changes by an atomic an element that another program reads")
            tensor.adder[index] = merge_program(tensor.adder[index], self.program)
        if is_ordered:
            self.released_at[self.program] = self.clock
            self.acquired.append(addresses)

    def refuse_other(self, tensor: TensorMemory, index: np.ndarray, users: np.ndarray, what: str) -> None:
        """Raise a race if another program used one of these elements and no atomic orders the two."""
        programs = users[index]
        others = (programs != NOBODY) & (programs != self.program)
        if not others.any() or self.is_ordered(tensor, index[others], programs[others], users is tensor.writer):
            return
        place = int(index[others][0])
        self.fail("race", f"{what}: element {place} of `{tensor.name}`, in the same launch; {FIX}")

    def is_ordered(self, tensor: TensorMemory, index: np.ndarray, programs: np.ndarray, is_write: bool) -> bool:
        """Whether this program did an atomic on something else, after the others did one behind their writes."""
        if not self.acquired:
            return False
        elements = np.uint64(tensor.start) + index * np.uint64(tensor.item_bytes)
        if np.isin(np.concatenate(self.acquired), elements).all():
            return False
        if not is_write:
            return True
        released = np.array([self.released_at.get(int(program), -1) for program in programs])
        return bool((released > tensor.written_at[index]).all())

    def fail(self, reason: str, what: str) -> NoReturn:
        line = find_line(self.file)
        raise CandidateError(reason, f"{f'line {line}: ' if line else ''}program {self.program} {what}")


def merge_program(programs: np.ndarray, program: int) -> np.ndarray:
    return np.where((programs == NOBODY) | (programs == program), program, SEVERAL).astype(np.int32)


def find_line(file: str) -> int:
    """Return the line of the candidate's file that runs now; 0 if there is none."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back  # type: ignore[assignment]
    return frame.f_lineno if frame else 0


def collect_tensors(arguments: Any) -> list[torch.Tensor]:
    """Return the tensors among the arguments of a launch."""
    tensors = []
    for one in arguments:
        if isinstance(one, tuple | list):
            tensors += collect_tensors(one)
        elif isinstance(tensor := getattr(one, "base", one), torch.Tensor):  # a reinterpreted tensor or a descriptor has a base
            tensors.append(tensor)
    return tensors


class MemoryChecks:
    """Patches the interpreter's memory operations; `launch` is the one that runs now."""

    def __init__(self) -> None:
        self.launch: LaunchMemory | None = None
        self.names: dict[int, tuple[str, bool]] = {}
        self.file = ""
        self.launches: list[tuple[str, tuple[int, ...]]] = []
        """The kernels and grids of this call so far."""
        self.load, self.store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
        self.change, self.exchange = InterpreterBuilder.create_atomic_rmw, InterpreterBuilder.create_atomic_cas
        InterpreterBuilder.create_masked_load = lambda builder, *args, **options: self.check_load(builder, *args, **options)
        InterpreterBuilder.create_masked_store = lambda builder, *args: self.check_store(builder, *args)
        InterpreterBuilder.create_atomic_rmw = lambda builder, *args: self.check_atomic(builder, *args)
        InterpreterBuilder.create_atomic_cas = lambda builder, *args: self.check_compare(builder, *args)

    def start_call(self, file: str, tensors: dict[str, torch.Tensor], input_count: int) -> None:
        """Begin a call of the launch function with these arguments; tensors without a name are scratch."""
        self.file = file
        self.launches = []
        self.names = {tensor.untyped_storage().data_ptr(): (name, i < input_count) for i, (name, tensor) in enumerate(tensors.items())}

    def start_launch(self, arguments: list[object]) -> None:
        """Begin a launch with these arguments."""
        smallest: dict[int, torch.Tensor] = {}
        for tensor in collect_tensors(arguments):
            address = tensor.untyped_storage().data_ptr()
            if address not in smallest or tensor.element_size() < smallest[address].element_size():
                smallest[address] = tensor
        self.launch = LaunchMemory(
            [TensorMemory(*self.names.get(address, ("scratch", False)), tensor) for address, tensor in smallest.items()], self.file
        )

    def check_load(self, builder: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, is_volatile: Any = False, **options: Any) -> Any:
        is_volatile = rest[2] if len(rest) > 2 else is_volatile
        addresses = select_addresses(ptrs, mask)
        if self.launch and addresses.size:
            self.launch.enter_program(builder)
            self.launch.note_load(addresses, item_bytes_of(ptrs), bool(is_volatile))
        return self.read(builder, ptrs, mask, other)

    def read(self, builder: Any, pointers: Any, mask: Any, other: Any = None) -> Any:
        """Load without a check. Cache hints change no value."""
        return self.load(builder, pointers, mask, other, None, None, False)

    def check_store(self, builder: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        addresses = select_addresses(pointers, mask)
        if not self.launch or not addresses.size:
            return self.store(builder, pointers, value, mask, *rest)
        self.launch.enter_program(builder)
        tensor = self.launch.locate(addresses, item_bytes_of(pointers), "writes")
        bits, selected = as_bits(value.data), np.broadcast_to(mask_of(mask), pointers.data.shape)
        before = as_bits(self.read(builder, pointers, mask).data)
        self.launch.note_store(tensor, addresses, item_bytes_of(pointers), (before != bits)[selected])
        result = self.store(builder, pointers, value, mask, *rest)
        after = as_bits(self.read(builder, pointers, mask).data)
        if (after != bits)[selected].any():
            self.launch.fail("race", f"writes different values to one element of `{tensor.name}` in one tl.store; fix the offsets")
        return result

    def check_atomic(self, builder: Any, operation: Any, pointers: Any, value: Any, mask: Any, order: Any, scope: Any) -> Any:
        self.note_atomic(builder, pointers, select_addresses(pointers, mask), order)
        return self.change(builder, operation, pointers, value, mask, order, scope)

    def check_compare(self, builder: Any, pointers: Any, expected: Any, value: Any, order: Any, scope: Any) -> Any:
        self.note_atomic(builder, pointers, pointers.data.reshape(-1), order)
        return self.exchange(builder, pointers, expected, value, order, scope)

    def note_atomic(self, builder: Any, pointers: Any, addresses: np.ndarray, order: Any) -> None:
        if self.launch and addresses.size:
            self.launch.enter_program(builder)
            self.launch.note_atomic(addresses, item_bytes_of(pointers), order != ir.MEM_SEMANTIC.RELAXED)


def item_bytes_of(pointers: Any) -> int:
    return max(1, int(pointers.get_element_ty().primitive_bitwidth) // 8)


def mask_of(mask: Any) -> np.ndarray:
    return np.asarray(mask.data if isinstance(mask, TensorHandle) else mask, bool)


def select_addresses(pointers: Any, mask: Any) -> np.ndarray:
    return np.asarray(pointers.data[np.broadcast_to(mask_of(mask), pointers.data.shape)])


def as_bits(data: np.ndarray) -> np.ndarray:
    """Return numbers as integers of their size, so that NaN equals itself."""
    return np.ascontiguousarray(data).view(f"u{data.itemsize}")
