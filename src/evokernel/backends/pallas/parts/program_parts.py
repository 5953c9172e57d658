"""Runs a traced program in parts at sizes that are too large for a complete run: only the grid steps behind some output blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from jax.extend.core import ClosedJaxpr

from evokernel.backends.pallas import lower
from evokernel.backends.pallas.chips import Chip
from evokernel.backends.pallas.entry_point import jax_dtype
from evokernel.backends.pallas.parts.grid_kernel import GridKernel, KernelOutput, StepCount
from evokernel.backends.pallas.parts.layout_rules import build_arrays
from evokernel.backends.pallas.parts.lazy_arrays import CHUNK_ELEMENTS, Box, ComputedArray, HeldArray, LazyArray, MovedArray, split_box
from evokernel.core.errors import CandidateError

if TYPE_CHECKING:
    from evokernel.core.backend import Arguments

CHUNK = 1024
"""Elements of a part that is not an output block of a kernel, for instance padding."""
MAX_UNWRITTEN_BLOCKS = 256
"""Unwritten blocks of a kernel's output for which it is checked whether they reach an output of the program."""


class PallasParts:
    """A call of a program in parts. The position of a part is that of its elements in the output: 0 is the first element, 1 the last.

    A part is the output block of the kernel that writes the element; see `GridKernel` for the grid steps that it takes. Where operations
    outside kernels produced the element, for instance by padding, the part is a short range of elements around it.
    """

    do_parts_wait = False

    def __init__(self, closed: ClosedJaxpr, arguments: Arguments, chip: Chip, detect_races: bool) -> None:
        self.arguments, self.chip, self.count = arguments, chip, StepCount()
        self.kernels: list[GridKernel] = []
        self.detect_races = detect_races
        inputs = [HeldArray(view_as_declared(array.data, array.dtype), jax_dtype(array.dtype)) for array in arguments.inputs]
        with lower.target_chip(chip):
            self.outputs = build_arrays(closed.jaxpr, closed.consts, inputs, self.add_kernel)
        self.stores = [view_as_declared(array.data, array.dtype).reshape(-1) for array in arguments.outputs]
        self.is_checked = False
        self.part_elements: dict[tuple[int, float], np.ndarray] = {}
        """By output and position: the elements of a part, which do not depend on the inputs."""

    def add_kernel(self, call: Any, operands: list[LazyArray]) -> list[LazyArray]:
        kernel = GridKernel(call, operands, self.count, self.detect_races)
        self.kernels.append(kernel)
        return list(kernel.outputs)

    def locate(self, positions: Sequence[float]) -> tuple[tuple[tuple[int, int], ...], ...]:
        with lower.target_chip(self.chip):
            if not self.is_checked:
                for number, output in enumerate(self.outputs):
                    self.check_written(number, output)
                self.is_checked = True
            numbers = range(len(self.outputs))
            return tuple(merge_ranges([self.find_elements(number, position) for position in positions]) for number in numbers)

    def run(self, positions: Sequence[float]) -> None:
        self.forget_values()
        with lower.target_chip(self.chip):
            for number, output in enumerate(self.outputs):
                self.count.start(len(positions))
                self.compute_blocks(output, positions)
                for position in dict.fromkeys(positions):
                    self.run_part(number, position)
        self.forget_values()

    def compute_blocks(self, output: LazyArray, positions: Sequence[float]) -> None:
        """Computes the kernel blocks at all positions together, so that they share steps where a kernel carries state."""
        blocks: dict[KernelOutput, list[int]] = {}
        for position in positions:
            if (traced := trace_element(output, find_element(output, position))) is not None:
                _, source, element = traced
                blocks.setdefault(source, []).append(int(source.find_blocks(np.array([element]))[0][0]))
        for source, numbers in blocks.items():
            source.require_blocks(np.unique(numbers))

    def forget_values(self) -> None:
        """Drops all values that depend on the inputs."""
        seen: set[int] = set()
        waiting: list[LazyArray] = list(self.outputs)
        while waiting:
            array = waiting.pop()
            if id(array) in seen:
                continue
            seen.add(id(array))
            array.forget_values()
            waiting += list_operands(array)

    def run_part(self, number: int, position: float) -> None:
        output, store = self.outputs[number], self.stores[number]
        source = peel_reshapes(output)
        if (box := find_part_box(source, find_element(output, position))) is not None:
            source.require_box(box)
            store.reshape(source.shape)[tuple(slice(*bounds) for bounds in box)] = source.read_box(box)
            return
        for flat in split_ranges(merge_ranges([self.find_elements(number, position)])):
            output.require(flat)
            store[flat] = output.read(flat)

    def find_elements(self, number: int, position: float) -> np.ndarray:
        """The elements of an output that the part at a position writes, as rows of a start and a stop index."""
        if (number, position) not in self.part_elements:
            self.part_elements[number, position] = find_part_elements(self.outputs[number], position)
        return self.part_elements[number, position]

    def check_written(self, number: int, output: LazyArray) -> None:
        """Raises CandidateError if no step writes some elements of an output."""
        for kernel in self.kernels:
            if not kernel.is_divisible:
                continue
            for source in kernel.outputs:
                missing = source.list_unwritten_blocks(MAX_UNWRITTEN_BLOCKS + 1)
                for block in missing[:MAX_UNWRITTEN_BLOCKS].tolist():
                    box = kernel.table.find_box(source.number, block)
                    flat = np.concatenate([part for _, part in split_box(source.shape, box)])
                    reached = push_to_output(output, source, flat)
                    if reached is None or reached.size or len(missing) > MAX_UNWRITTEN_BLOCKS:
                        name = self.arguments.outputs[number].name
                        text = f"no grid step{kernel.where} writes block {tuple(start for start, _ in box)} of the kernel's output"
                        raise CandidateError("unwritten", f"elements of output `{name}` are not written: {text}")


def view_as_declared(data: np.ndarray, dtype: str) -> np.ndarray:
    """The data with its declared element type; bfloat16 is stored as uint16."""
    return data.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else data


def list_operands(array: LazyArray) -> list[LazyArray]:
    """The arrays that an array is computed from."""
    if isinstance(array, MovedArray):
        return [*(operand for operand, _ in array.operands), *([array.fill] if array.fill else [])]
    if isinstance(array, ComputedArray):
        return list(array.operands)
    return [*array.kernel.scalars, *array.kernel.operands] if isinstance(array, KernelOutput) else []


def find_element(output: LazyArray, position: float) -> int:
    """The element at a position between 0 and 1."""
    return min(max(round(position * (output.size - 1)), 0), output.size - 1)


def find_part_elements(output: LazyArray, position: float) -> np.ndarray:
    """The elements of the part at a position, as rows of a start and a stop index."""
    element = find_element(output, position)
    source = peel_reshapes(output)
    if (box := find_part_box(source, element)) is not None:
        return box_ranges(source.shape, box)
    if (flat := push_block(output, element)) is not None:
        return list_ranges(flat)
    first = element // CHUNK * CHUNK
    return np.array([[first, min(first + CHUNK, output.size)]])


def peel_reshapes(array: LazyArray) -> LazyArray:
    """The array below reshapes, which keep the order of the elements; casts stay."""
    while isinstance(array, MovedArray) and array.operands[0][1] is None and array.operands[0][0].dtype == array.dtype:
        array = array.operands[0][0]
    return array


def find_block_box(source: KernelOutput, element: int) -> Box:
    """The block of a kernel's output with an element."""
    block = int(source.find_blocks(np.array([element]))[0][0])
    return source.kernel.table.find_box(source.number, block)


def trace_element(output: LazyArray, element: int) -> tuple[list[tuple[MovedArray, int]], KernelOutput, int] | None:
    """The operations, with the operand of each, that move an element from a kernel's output; None if it comes from no kernel."""
    path: list[tuple[MovedArray, int]] = []
    array, flat = output, np.array([element])
    while isinstance(array, MovedArray):
        number, _, flat = next(array.pull(flat))
        if number < 0:
            return None
        path.append((array, number))
        array = array.operands[number][0]
    return (path, array, int(flat[0])) if isinstance(array, KernelOutput) else None


def find_part_box(source: LazyArray, element: int) -> Box | None:
    """The box of an array that comes from the same kernel block as an element; None if it is not a box."""
    traced = trace_element(source, element)
    if traced is None:
        return None
    path, kernel_output, flat = traced
    box = find_source_box(kernel_output, flat)
    for moved, number in reversed(path):
        if (pushed := moved.push_box(number, box)) is None:
            return None
        box = pushed
    return box


def find_source_box(output: KernelOutput, element: int) -> Box:
    """The block of a kernel's output with an element; all of the output if the kernel cannot be divided."""
    return find_block_box(output, element) if output.kernel.is_divisible else tuple((0, size) for size in output.shape)


def push_block(output: LazyArray, element: int) -> np.ndarray | None:
    """The elements of an output that come from the same kernel block as an element; None if that block has no single image."""
    traced = trace_element(output, element)
    if traced is None:
        return None
    path, source, flat = traced
    elements: np.ndarray | None = np.concatenate([part for _, part in split_box(source.shape, find_source_box(source, flat))])
    for moved, number in reversed(path):
        if elements is not None:
            elements = moved.push(number, elements)
    return elements


def push_to_output(output: LazyArray, source: KernelOutput, flat: np.ndarray) -> np.ndarray | None:
    """The elements of an output that come from elements of a kernel's output; None if that cannot be said."""
    if output is source:
        return flat
    if not isinstance(output, MovedArray):
        return flat[:0]
    found = []
    for number, (operand, _) in enumerate(output.operands):
        inner = push_to_output(operand, source, flat)
        if inner is None:
            return None
        if inner.size:
            if (pushed := output.push(number, inner)) is None:
                return None
            found.append(pushed)
    return np.concatenate(found) if found else flat[:0]


def box_ranges(shape: Sequence[int], box: Box) -> np.ndarray:
    """A box as ranges of flat indices, in order."""
    axis = len(shape)
    while axis > 0 and all(bounds == (0, size) for bounds, size in zip(box[axis:], shape[axis:])):
        axis -= 1
    strides = [int(np.prod(shape[dimension + 1 :], dtype=np.int64)) for dimension in range(len(shape))]
    if not shape:
        return np.array([[0, 1]])
    starts: np.ndarray = np.zeros((), np.int64)
    for (first, last), stride in zip(box[:axis], strides[:axis]):
        starts = starts[..., None] + np.arange(first, last) * stride
    first, last = box[axis] if axis < len(box) else (0, 1)
    stride = strides[axis] if axis < len(box) else 1
    starts = starts.reshape(-1) + first * stride
    return np.stack([starts, starts + (last - first) * stride], 1)


def split_ranges(ranges: Sequence[tuple[int, int]]) -> Iterator[np.ndarray]:
    """The elements of ranges, at most `CHUNK_ELEMENTS` at a time."""
    starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
    ends = np.cumsum(stops - starts)
    for begin in range(0, int(ends[-1]) if len(ends) else 0, CHUNK_ELEMENTS):
        places = np.arange(begin, min(begin + CHUNK_ELEMENTS, int(ends[-1])))
        numbers = np.searchsorted(ends, places, side="right")
        yield places + (stops - ends)[numbers]


def list_ranges(flat: np.ndarray) -> np.ndarray:
    """Elements as ranges of flat indices, in order."""
    steps = np.diff(flat)
    if (steps <= 0).any():
        flat = np.unique(flat)
        steps = np.diff(flat)
    breaks = np.flatnonzero(steps != 1)
    return np.stack([flat[np.concatenate([[0], breaks + 1])], flat[np.concatenate([breaks, [flat.size - 1]])] + 1], 1)


def merge_ranges(parts: Sequence[np.ndarray]) -> tuple[tuple[int, int], ...]:
    """Sorted and disjoint ranges that cover the same elements."""
    ranges = np.concatenate(parts) if parts else np.zeros((0, 2), np.int64)
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    if not len(ranges):
        return ()
    reach = np.maximum.accumulate(ranges[:, 1])
    breaks = np.flatnonzero(ranges[1:, 0] > reach[:-1])
    starts = ranges[np.concatenate([[0], breaks + 1]), 0]
    stops = reach[np.concatenate([breaks, [len(ranges) - 1]])]
    return tuple(zip(starts.tolist(), stops.tolist()))
