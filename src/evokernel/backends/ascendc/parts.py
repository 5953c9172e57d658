"""Runs a kernel call in parts, at sizes that cannot be executed completely: the blocks of the launch are the parts.

A dry execution of all blocks, which touches no data, gives the latency and the elements that each block writes. Where the control flow
depends on data, sampled blocks are executed instead.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from evokernel.core.backend import Arguments, Array
from evokernel.core.errors import CandidateError

MAX_PART_BYTES = 4 << 30
"""Memory that the parts of one run may touch."""
SAMPLED_PER_WAVE = 4


class Execution(IntEnum):
    """How the simulator executes the following calls; the enum of `parts.h`."""

    WHOLE = 0
    DRY = 1
    DRY_PARTS = 2
    PARTS = 3
    SAMPLE = 4


Ranges = tuple[tuple[int, int], ...]
"""Sorted, disjoint ranges of flat element indices."""


class LaunchParts:
    """A kernel call whose parts are the blocks of its launch, or the complete call where blocks depend on each other."""

    def __init__(self, simulator: Any, call: Callable[[], None], arguments: Arguments) -> None:
        for name in ("simulator_part_count", "simulator_blocks_run", "simulator_guesses", "simulator_ranges"):
            getattr(simulator, name).restype = ctypes.c_int64
        simulator.simulator_bytes_moved.restype = ctypes.c_double
        self.simulator, self.call, self.arguments = simulator, call, arguments
        self.part_count = 0
        """0 before the first survey."""
        self.is_dry_valid = True
        self.located: tuple[int, ...] = ()

    def locate(self, positions: Sequence[float]) -> tuple[Ranges, ...]:
        """For each output, the elements that the parts at these positions write. Raises CandidateError where all parts together leave some
        elements unwritten."""
        if not self.part_count:
            self.survey()
        groups = self.groups_at(positions)
        self.execute(Execution.DRY_PARTS if self.is_dry_valid else Execution.PARTS, groups)
        self.check_memory(len(groups))
        self.located = groups
        return tuple(self.written_ranges(output) for output in self.arguments.outputs)

    def run(self, positions: Sequence[float]) -> None:
        """Execute only the parts at these positions."""
        if not self.part_count:
            self.survey()
        groups = self.groups_at(positions)
        if groups != self.located and self.is_dry_valid:
            self.execute(Execution.DRY_PARTS, groups)
            self.check_memory(len(groups))
        self.execute(Execution.PARTS, groups)
        self.located = groups

    def survey(self) -> None:
        """Execute all blocks dry: the simulator's report has the latency, and its records show whether every output is complete."""
        try:
            self.execute(Execution.DRY)
            self.check_coverage()
        except CandidateError:
            if not self.simulator.simulator_guesses():
                raise
            self.is_dry_valid = False  # the violation may follow from a number that the kernel got instead of data
        self.part_count = self.simulator.simulator_part_count()
        if not self.is_dry_valid:
            self.execute(Execution.SAMPLE, sampled_per_wave=SAMPLED_PER_WAVE)

    def check_coverage(self) -> None:
        """Refuse a launch that leaves elements of an output unwritten."""
        if self.simulator.simulator_fell_short():
            return
        for output in self.arguments.outputs:
            size, stop = output.data.size, 0
            ranges = self.written_ranges(output)
            written = sum(end - start for start, end in ranges)
            if written == size:
                continue
            for start, end in ranges:
                if start > stop:
                    break
                stop = end
            raise CandidateError(
                "unwritten", f"no block writes {size - written} of {size} elements of `{output.name}`; the first of them is element {stop}"
            )

    def check_memory(self, count: int) -> None:
        """Refuse parts that would touch too much memory."""
        tensors = (*self.arguments.inputs, *self.arguments.outputs)
        touched = min(self.simulator.simulator_bytes_moved(), float(sum(tensor.data.nbytes for tensor in tensors)))
        if touched > MAX_PART_BYTES:
            raise CandidateError(
                "memory",
                f"{count} of {self.part_count} parts of this launch move {touched / 2**30:.1f} GiB, but at most {MAX_PART_BYTES >> 30} GiB can"
                " be executed at this size: use more blocks (SetBlockDim), and no synchronization of all blocks",
            )

    def groups_at(self, positions: Sequence[float]) -> tuple[int, ...]:
        """The numbers of the parts at these positions."""
        return tuple(sorted({round(position * (self.part_count - 1)) for position in positions}))

    def execute(self, execution: Execution, groups: Sequence[int] = (), sampled_per_wave: int = 0) -> None:
        """Call the kernel in this way. A call that is one part has no choice of groups."""
        chosen = groups if self.part_count > 1 else ()
        numbers = (ctypes.c_int64 * max(1, len(chosen)))(*chosen)
        self.simulator.simulator_choose(
            int(execution), numbers if chosen else None, ctypes.c_int64(len(chosen) if chosen else sampled_per_wave)
        )
        try:
            self.call()
        finally:
            self.simulator.simulator_end_choice()

    def written_ranges(self, output: Array) -> Ranges:
        """The elements of an output that the last call wrote."""
        size, place = output.data.itemsize, ctypes.c_void_p(output.data.ctypes.data)
        count = self.simulator.simulator_ranges(place, ctypes.c_int64(output.data.nbytes), None, ctypes.c_int64(0))
        ends = (ctypes.c_int64 * max(1, 2 * count))()
        self.simulator.simulator_ranges(place, ctypes.c_int64(output.data.nbytes), ends, ctypes.c_int64(count))
        ranges = ((-(-ends[2 * i] // size), ends[2 * i + 1] // size) for i in range(count))
        return tuple((start, stop) for start, stop in ranges if start < stop)
