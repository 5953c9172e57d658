"""Runs a kernel call in parts, at sizes that cannot be executed completely: the blocks of the launch are the parts.

A dry execution of all blocks, which touches no data, gives the latency and the elements that each block writes. Where it would take too
long, it executes some of the blocks. Where the control flow depends on data, sampled blocks are executed really instead.
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
MIN_MEETING_MACS = 5e10
"""Multiplications from which on a launch whose blocks wait for each other is executed in parts: a complete execution takes too long."""
MIN_MEETING_BYTES = 8 << 30
"""The same for the bytes that a launch moves."""
MAX_ZEROS = 1 << 20
"""Elements that no block writes and that the last part sets to zero, at each end."""
SAMPLED_PER_WAVE = 4


class Execution(IntEnum):
    """How the simulator executes the following calls; the enum of `parts.h`."""

    WHOLE = 0
    DRY = 1
    DRY_PARTS = 2
    PARTS = 3
    SAMPLE = 4
    TOUCHING = 5


Ranges = tuple[tuple[int, int], ...]
"""Sorted, disjoint ranges of flat element indices."""


class LaunchParts:
    """A kernel call whose parts are the blocks of its launch, or the complete call where blocks depend on each other."""

    def __init__(self, simulator: Any, call: Callable[[], None], arguments: Arguments) -> None:
        for name in ("simulator_part_count", "simulator_blocks_run", "simulator_guesses", "simulator_ranges", "simulator_touching"):
            getattr(simulator, name).restype = ctypes.c_int64
        simulator.simulator_bytes_moved.restype = ctypes.c_double
        self.simulator, self.call, self.arguments = simulator, call, arguments
        self.part_count = 0
        """0 before the first survey."""
        self.is_dry_valid = True
        self.dry_failure: CandidateError | None = None
        """What ended a dry execution that got numbers instead of data."""
        self.do_parts_meet = False
        """Whether all blocks meet, and can run alone after their last meeting: then all run until it, and only the chosen ones after it."""
        self.survey_bytes = 0.0
        self.do_parts_add = False
        """Whether several parts add to the same elements, so that a part alone does not give their values."""
        self.has_zeros = False
        """Whether the call starts with tensors of zeros. The simulator fills them where the dry call before says that parts write."""
        self.moved_bytes: dict[int, float] = {}
        """Memory that single parts touch."""
        self.located: dict[tuple[int, ...], list[Ranges]] = {}
        """What parts write, for each output; it does not depend on data if dry executions are valid."""
        self.never_written: list[Ranges] = [()] * len(arguments.outputs)
        """Of each output that starts as zeros: elements that no block writes. They belong to the last part."""

    @property
    def do_parts_wait(self) -> bool:
        """Whether parts wait for each other, so that running one takes about as long as running several."""
        return self.do_parts_meet or self.part_count == 1

    def locate(self, positions: Sequence[float]) -> tuple[Ranges, ...]:
        """For each output, the elements that the parts at these positions write. Raises CandidateError where all parts together leave some
        elements unwritten."""
        if not self.part_count:
            self.survey()
        groups = self.groups_at(positions)
        if groups not in self.located or not self.is_dry_valid:
            self.locate_groups(groups)
            self.located[groups] = [self.written_ranges(output) for output in self.arguments.outputs]
        written = self.located[groups]
        has_last = self.part_count - 1 in groups
        return tuple(merge_ranges(ranges, rest if has_last else ()) for ranges, rest in zip(written, self.never_written))

    def run(self, positions: Sequence[float]) -> None:
        """Execute only the parts at these positions."""
        if not self.part_count:
            self.survey()
        groups = self.groups_at(positions)
        if self.do_parts_add and self.is_dry_valid:
            self.locate_groups(groups)
            groups = self.groups_adding_to(groups)
        if self.has_zeros or not all(group in self.moved_bytes for group in groups):
            self.locate_groups(groups)
        else:  # each was located alone
            self.check_memory(len(groups), sum(self.moved_bytes[group] for group in groups))
        if not self.execute_groups(groups):
            self.simulator.simulator_forget_split()
            self.do_parts_meet, self.part_count = False, 1
            self.execute(Execution.PARTS)
        if self.part_count - 1 in self.groups_at(positions):
            for output, ranges in zip(self.arguments.outputs, self.never_written):
                for start, stop in ranges:
                    output.data.reshape(-1)[start:stop] = 0

    def execute_groups(self, groups: tuple[int, ...]) -> bool:
        """Execute these parts. False if they wait for others after the last meeting of the survey, because that depends on data."""
        try:
            self.execute(Execution.PARTS, groups)
        except CandidateError as error:
            if self.do_parts_meet and "\tE-SYNC-LOST\t" in error.detail:
                return False
            raise
        return bool(self.simulator.simulator_holds_split())

    def locate_groups(self, groups: tuple[int, ...]) -> None:
        """Record what these parts write: as in the survey, if it executed all of them, otherwise by executing them."""
        numbers = (ctypes.c_int64 * len(groups))(*groups)
        is_surveyed = self.is_dry_valid and self.part_count > 1
        if not (is_surveyed and self.simulator.simulator_locate(numbers, ctypes.c_int64(len(groups)))):
            self.execute(Execution.DRY_PARTS if self.is_dry_valid else Execution.PARTS, groups)
        if self.do_parts_meet:  # all parts run until their last meeting
            self.check_memory(len(groups), self.survey_bytes)
            return
        moved_bytes = self.simulator.simulator_bytes_moved()
        self.check_memory(len(groups), moved_bytes)
        if len(groups) == 1:
            self.moved_bytes[groups[0]] = moved_bytes

    def groups_adding_to(self, groups: tuple[int, ...]) -> tuple[int, ...]:
        """These parts, and all others that add to their elements."""
        self.execute(Execution.TOUCHING)
        touching = (ctypes.c_int64 * self.part_count)()
        count = self.simulator.simulator_touching(touching, ctypes.c_int64(self.part_count))
        return tuple(touching[:count])

    def survey(self) -> None:
        """Execute all blocks dry: the simulator's report has the latency, and its records show whether every output is complete."""
        try:
            self.execute(Execution.DRY)
            self.check_coverage()
        except CandidateError as error:
            if not self.simulator.simulator_guesses():
                raise
            self.is_dry_valid = False  # the violation may follow from a number that the kernel got instead of data
            self.dry_failure = error
        self.survey_bytes = self.simulator.simulator_bytes_moved()
        min_macs = 0.0 if self.survey_bytes >= MIN_MEETING_BYTES else MIN_MEETING_MACS
        self.do_parts_meet = self.is_dry_valid and bool(self.simulator.simulator_splits_at_meeting(ctypes.c_double(min_macs)))
        self.do_parts_add = bool(self.simulator.simulator_groups_add())
        self.has_zeros = bool(self.simulator.simulator_has_zeros())
        if not self.is_dry_valid:
            self.execute_sample()
        self.part_count = self.simulator.simulator_part_count()
        if self.part_count == 1 and self.is_dry_valid and not self.simulator.simulator_fell_short():
            self.located[0,] = [self.written_ranges(output) for output in self.arguments.outputs]
            self.moved_bytes[0] = self.survey_bytes

    def execute_sample(self) -> None:
        """Execute some blocks really. Where the tensors are too large for it, the error also says what ended the dry execution."""
        try:
            self.execute(Execution.SAMPLE, sampled_per_wave=SAMPLED_PER_WAVE)
        except CandidateError as error:
            if self.dry_failure is None or "\tE-PART-SIZE\t" not in error.detail:
                raise
            fields = self.dry_failure.detail.split("\t")
            cause = f"{fields[1]}: {fields[-1]}" if len(fields) > 1 else fields[0]
            raise CandidateError(error.reason, f"{error.detail}. The execution without data ended with {cause}") from error

    def check_coverage(self) -> None:
        """Refuse a launch that leaves elements of an output unwritten."""
        if self.simulator.simulator_fell_short():
            return
        for index, output in enumerate(self.arguments.outputs):
            size = output.data.size
            missing = list_gaps(self.written_ranges(output), size)
            if not missing:
                continue
            if self.simulator.simulator_starts_as_zeros(ctypes.c_void_p(output.data.ctypes.data)):
                self.never_written[index] = cut_ranges(missing, MAX_ZEROS)
                continue
            count = sum(stop - start for start, stop in missing)
            raise CandidateError(
                "unwritten", f"no block writes {count} of {size} elements of `{output.name}`; the first of them is element {missing[0][0]}"
            )

    def check_memory(self, count: int, moved_bytes: float) -> None:
        """Refuse parts that would touch too much memory."""
        tensors = (*self.arguments.inputs, *self.arguments.outputs)
        touched = min(moved_bytes, float(sum(tensor.data.nbytes for tensor in tensors)))
        if touched > MAX_PART_BYTES:
            raise CandidateError(
                "memory",
                f"{count} of {self.part_count} parts of this launch move {touched / 2**30:.1f} GiB, but at most {MAX_PART_BYTES >> 30} GiB"
                " can be executed at this size: use more blocks (SetBlockDim), and no synchronization of all blocks",
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


def list_gaps(ranges: Ranges, size: int) -> Ranges:
    """What sorted, disjoint ranges leave of [0, size)."""
    starts, stops = (0, *(stop for _, stop in ranges)), (*(start for start, _ in ranges), size)
    return tuple((start, stop) for start, stop in zip(starts, stops) if start < stop)


def cut_ranges(ranges: Ranges, count: int) -> Ranges:
    """Return the first `count` and the last `count` elements of the ranges."""
    first, last = [], []
    left = right = count
    for start, stop in ranges:
        first += [(start, min(stop, start + left))] if left > 0 else []
        left -= stop - start
    for start, stop in reversed(ranges):
        last += [(max(start, stop - right), stop)] if right > 0 else []
        right -= stop - start
    return merge_ranges(tuple(first), tuple(last))


def merge_ranges(one: Ranges, other: Ranges) -> Ranges:
    """The union, sorted and disjoint."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted((*one, *other)) if other else one:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)
