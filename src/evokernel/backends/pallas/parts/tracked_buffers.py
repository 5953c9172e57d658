"""Buffers of interpret mode for running some of the grid steps of a kernel.

Inputs in HBM are read from lazy arrays, so that they take no memory. Buffers in VMEM and SMEM detect when a step reads a value that an
earlier step left there, because then the earlier step must run, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode
from jax._src.pallas.mosaic.interpret import shared_memory, utils

from evokernel.backends.pallas.parts.lazy_arrays import LazyArray, refuse_size
from evokernel.backends.pallas.program_rules import all_equations, nested_programs

MAX_READ_BYTES = 4 << 30
"""Bytes that one part may read from HBM."""


class CarriedStateRead(RuntimeError):
    """A step reads state of an earlier step that did not run."""


@dataclass
class AccessTracker:
    """What the buffers of one run need to know about the access in progress."""

    is_strict: bool
    """Whether reading state of steps that did not run is an error. It is not if the first step starts with undefined memory anyway."""
    counts_swaps: bool
    """Whether the kernel uses the old values that stores return."""
    in_store: bool = False
    """Whether the current access is a store of the kernel, which also returns the old values."""
    in_pipeline: bool = False
    """Whether the current access copies a block between HBM and the core."""
    mask: np.ndarray | None = None
    """Mask of the current store."""
    read_bytes: int = 0


class OperandBuffer(shared_memory.Buffer):  # type: ignore[misc]
    """An input in HBM. Elements between its shape and the padded shape are undefined, as in interpret mode."""

    def __init__(self, array: LazyArray, padded_shape: Sequence[int], tracker: AccessTracker) -> None:
        self.array, self.padded_shape, self.tracker = array, tuple(padded_shape), tracker
        self._logical_shape, self._ref_count = self.padded_shape, 1

    @property
    def content(self) -> Any:
        return self.array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.padded_shape

    def __getitem__(self, part: tuple[Any, ...]) -> np.ndarray:
        clipped = utils.clip_range_to_shape(self._normalize_range(part), self.shape)
        if clipped is None:
            raise IndexError("the range is outside the array")
        bounds = [(index.start, index.stop, index.step or 1) if isinstance(index, slice) else (index, index + 1, 1) for index in clipped]
        box = [(first, max(first, min(stop, size))) for (first, stop, _), size in zip(bounds, self.array.shape, strict=True)]
        values = self.array.read_box(tuple((min(first, last), last) for first, last in box))
        self.tracker.read_bytes += values.nbytes
        if self.tracker.read_bytes > MAX_READ_BYTES:
            subject = f"an output block that takes more than {MAX_READ_BYTES >> 30} GiB of inputs"
            raise refuse_size(subject, "give each grid step its own part of the inputs and outputs by its BlockSpecs")
        missing = [(0, stop - max(first, last)) for (first, stop, _), (_, last) in zip(bounds, box)]
        if any(after > 0 for _, after in missing):
            values = np.pad(values, missing, constant_values=utils.get_uninitialized_value(values.dtype, "nan"))
        values = values[tuple(slice(None, None, step) for *_, step in bounds)]
        return values.reshape([size for size, index in zip(values.shape, clipped) if isinstance(index, slice)])

    def __setitem__(self, part: tuple[Any, ...], value: np.ndarray) -> None:
        raise refuse_size("a kernel that writes to an input in HBM", "write to a separate output")


class InputBuffer(shared_memory.Buffer):  # type: ignore[misc]
    """The buffer of an input block. A later step sees what the kernel writes there, if it uses the same block."""

    def __init__(self, content: np.ndarray, tracker: AccessTracker) -> None:
        super().__init__(content)
        self.tracker = tracker

    def __setitem__(self, part: tuple[Any, ...], value: np.ndarray) -> None:
        if self.tracker.is_strict and not self.tracker.in_pipeline:
            raise CarriedStateRead("the kernel writes to the buffer of an input block")
        super().__setitem__(part, value)


class ScratchBuffer(shared_memory.Buffer):  # type: ignore[misc]
    """A scratch buffer or the buffer of an output block: it keeps its content from one step to the next."""

    def __init__(self, content: np.ndarray, tracker: AccessTracker) -> None:
        super().__init__(content)
        self.tracker, self.defined = tracker, np.zeros(content.shape, bool)

    def reset(self) -> None:
        """Makes the content undefined."""
        self.defined[...] = False
        self.content[...] = utils.get_uninitialized_value(self.dtype, "nan")

    def __getitem__(self, part: tuple[Any, ...]) -> np.ndarray:
        values: np.ndarray = super().__getitem__(part)
        is_read = self.tracker.counts_swaps or not (self.tracker.in_store or self.tracker.in_pipeline)
        if self.tracker.is_strict and is_read:
            defined = self.defined[utils.clip_range_to_shape(self._normalize_range(part), self.shape)]
            if not defined.all():
                raise CarriedStateRead("the kernel reads memory that no earlier step of the part wrote")
        return values

    def __setitem__(self, part: tuple[Any, ...], value: np.ndarray) -> None:
        super().__setitem__(part, value)
        self.defined[self._normalize_range(part)] = True

    def set_in_bounds_portion(self, part: tuple[Any, ...], value: np.ndarray) -> None:
        super().set_in_bounds_portion(part, value)
        target = self.defined[utils.clip_range_to_shape(self._normalize_range(part), self.shape)]
        if self.tracker.mask is not None:
            target |= self.tracker.mask[tuple(map(slice, target.shape))]


@contextlib.contextmanager
def tracked_stores(find_tracker: Callable[[], AccessTracker]) -> Iterator[None]:
    """A context in which compiled kernels announce their stores to the tracker."""
    original: Any = mode.swap

    def swap(*arguments: Any, **options: Any) -> Any:
        tracker = find_tracker()
        tracker.in_store, tracker.mask = True, None if arguments[7] is None else np.asarray(arguments[7])
        try:
            return original(*arguments, **options)
        finally:
            tracker.in_store, tracker.mask = False, None

    mode.swap = swap
    try:
        yield
    finally:
        mode.swap = original


def uses_swapped_values(jaxpr: Any) -> bool:
    """Whether a kernel uses the old values that a store returns."""
    programs = [jaxpr, *(inner for equation in all_equations(jaxpr) for inner, _ in nested_programs(list(equation.params.values())))]
    for program in programs:
        used = {id(atom) for equation in program.eqns for atom in equation.invars} | {id(atom) for atom in program.outvars}
        stores = (equation for equation in program.eqns if equation.primitive.name in ("swap", "masked_swap"))
        if any(id(variable) in used for equation in stores for variable in equation.outvars):
            return True
    return False
