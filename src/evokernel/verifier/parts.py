"""Checks a kernel at a size that cannot be run whole: runs some of its parts, and compares tiles of what they write with the reference.

After the candidate is fixed, the verifier draws parts of the kernel in secret: blocks of the launch, or output blocks of the grid; the
first and the last are always among them. It chooses tiles of the elements that these parts write, draws just the inputs that the reference
needs for these tiles, runs the parts, and compares. All tensors are sparse memory, of which only the touched pages exist. docs/sizes.md
says which wrong kernels escape, and with which probability.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from math import prod
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evokernel.core.backend import Array
from evokernel.core.errors import CandidateError, InfraError
from evokernel.core.numeric_contract import ToleranceRule
from evokernel.core.seeds import seed_from_text
from evokernel.reference.region_boxes import split_box
from evokernel.verifier.compare import INEXACT, Difference, ExpectedOutput, ValueRange, decode_values
from evokernel.verifier.feedback import format_number
from evokernel.verifier.shared_buffers import BufferSlot, make_blank_array, view_tensor
from evokernel.verifier.tolerance import UnsuitableInputs
from evokernel.verifier.trial import Trial

if TYPE_CHECKING:
    import torch

    from evokernel.reference.regions import RegionReference

    TensorPair = tuple[torch.Tensor, torch.Tensor]

Box = tuple[tuple[int, int], ...]
Range = tuple[int, int]
TILE_ELEMENTS, MIN_TILE_ELEMENTS, TILE_FLOPS, INNER_TILES = 512, 16, 2e8, 12
"""Elements of the largest and of the smallest tile; the operations of the reference above which a tile is made smaller; and the number of
tiles of a batch that lie at random places inside what its parts write."""
MAX_NEEDED_BYTES, MAX_TILE_BYTES = 1 << 30, 3 << 30
"""The inputs that are drawn for all tiles of a candidate, and for a single one; above the latter a task cannot be checked."""
CHUNK_ELEMENTS = 1 << 24
"""Elements of an input that are drawn at a time."""
FIRST_POSITIONS = (0.0, 1.0)
RANDOM_PARTS, MAX_RANDOM_S = 16, 5.0
"""Parts at random positions that are run, fewer only if the first parts took so long that these would exceed the time."""
PARTS_TOGETHER = 4
"""Parts at random positions if parts wait for each other: all of them run once, together with the first and the last."""
REMAINING_SHARE = 0.75
"""The share of the remaining time that further parts of a kernel may take. They are to end within `timeout_s`: that a simulation may take
longer at the size `full` is for the first parts."""
SKIPPED_NOTE = "another input distribution at the timed size: running further parts takes too long"
MAX_SHOWN = 5


class Tile(NamedTuple):
    """A box of one output that is compared."""

    output: int
    box: Box

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(stop - start for start, stop in self.box)

    @property
    def slices(self) -> tuple[slice, ...]:
        return tuple(slice(start, stop) for start, stop in self.box)


class TiledCheck:
    """The parts that ran and the tiles that were compared, for one candidate."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.random = Random(seed_from_text(f"{trial.seed}/parts"))
        self.slot: BufferSlot | None = None
        self.ranges: list[list[Range]] = [[] for _ in trial.job.task.signature.outputs]
        self.compared_elements = self.needed_bytes = self.random_parts = 0
        self.batch_run_s, self.batch_parts = 0.0, 0
        """Seconds of the candidate process for the parts of the last batch, and their number; 0 before it."""
        self.complete_kinds: set[str] = set()
        """Kinds of inputs on which every element of the outputs was compared; the inputs of a kind stay the same for a candidate."""
        flops_per_element = trial.job.task.work.flops / self.count_elements()
        self.tile_elements = int(min(TILE_ELEMENTS, max(MIN_TILE_ELEMENTS, TILE_FLOPS / max(flops_per_element, 1))))

    def check(self, kind: str, random_parts: int = RANDOM_PARTS) -> None:
        """Run the first and the last part and some at random positions, and compare tiles of them. Raises UnsuitableInputs if no inputs
        of this kind can be drawn."""
        regions = self.trial.cases.get_regions(kind)
        if regions.unsupported_reason and kind != "own":
            raise UnsuitableInputs(kind)
        if regions.unsupported_reason:
            raise InfraError(
                f"{self.trial.job.task.id} cannot be checked at this size: {regions.unsupported_reason}. "
                "Choose --size laptop, or reduce its sizes."
            )
        if kind in self.complete_kinds:
            return
        do_parts_wait = self.ask_whether_parts_wait(regions)
        first_count = min(random_parts, PARTS_TOGETHER) if do_parts_wait else 1
        positions = self.choose_affordable([*FIRST_POSITIONS, *(self.random.random() for _ in range(first_count))])
        if not positions:
            self.trial.skipped_checks.append(SKIPPED_NOTE)
            return
        start_s = self.read_clock()
        tiles = self.check_batch(regions, kind, positions)
        if {tile.output for tile in tiles if tile.shape == regions.outputs[tile.output].shape} == set(range(len(regions.outputs))):
            self.complete_kinds.add(kind)
            return
        if do_parts_wait:
            return
        part_s = (self.read_clock() - start_s) / len(positions)
        part_bytes = self.needed_bytes / len(positions)
        count = min(random_parts - 1, int(MAX_RANDOM_S / part_s), int((MAX_NEEDED_BYTES - self.needed_bytes) / max(part_bytes, 1)))
        if count > 0:
            self.check_batch(regions, kind, [self.random.random() for _ in range(count)])

    def ask_whether_parts_wait(self, regions: RegionReference) -> bool:
        """Return whether parts of the kernel wait for each other; the candidate process knows after it has located one."""
        process = self.trial.candidate_process
        if process is None:
            return False
        if not self.batch_parts:
            slot = self.get_slot(regions)
            with self.trial.translate_errors():
                process.locate_parts(slot, FIRST_POSITIONS[:1])
        return process.do_parts_wait

    def choose_affordable(self, positions: list[float]) -> list[float]:
        """Return as many of the last positions as can be run in the time that the candidate process has left, judged by the last batch.

        Parts that wait for each other run together until they have met: one alone takes as long as all parts of that batch.
        """
        process = self.trial.candidate_process
        if not self.batch_run_s or process is None:
            return positions
        affordable_s = REMAINING_SHARE * (process.remaining_s - (process.timeout_s - self.trial.job.timeout_s))
        if process.do_parts_wait:
            return positions if self.batch_run_s <= affordable_s else []
        count = int(affordable_s * self.batch_parts / self.batch_run_s)
        return positions[-count:] if count > 0 else []

    def read_clock(self) -> float:
        """Return the CPU time of this thread and of the candidate process, so that a busy machine runs as many parts as another; the time
        of day if the system does not report it."""
        process = self.trial.candidate_process
        candidate_s = process.read_cpu_s() if process else None
        return time.monotonic() if candidate_s is None else time.thread_time() + candidate_s

    def check_batch(self, regions: RegionReference, kind: str, positions: Sequence[float]) -> list[Tile]:
        """Run the parts at some positions once, and compare tiles of their outputs. Return the tiles."""
        process, slot = self.trial.candidate_process, self.get_slot(regions)
        assert process is not None
        assert self.trial.arena is not None
        with self.trial.translate_errors():
            ranges_by_part = [process.locate_parts(slot, [position]) for position in positions]
        inner_tiles = max(1, INNER_TILES // len(positions))
        tiles = list(dict.fromkeys(tile for ranges in ranges_by_part for tile in self.choose_tiles(regions, ranges, inner_tiles)))
        expected, written_boxes = [], set[tuple[int, Box]]()
        for number, tile in enumerate(tiles):
            self.write_inputs(regions, slot, tile, written_boxes)
            if number == 0:  # the operand that all tiles share was just drawn
                regions.compute_shared(tiles)
            expected.append(regions.compute(tile.output, tile.box))
        self.trial.arena.poison_boxes(slot, [(tile.output, tile.slices) for tile in tiles])
        remaining_s = process.remaining_s
        with self.trial.translate_errors():
            process.run_parts(slot, positions)
        self.random_parts += sum(position not in FIRST_POSITIONS for position in positions)
        self.batch_run_s, self.batch_parts = remaining_s - process.remaining_s, len(positions)
        if stray_writes := self.trial.arena.find_stray_writes(slot):
            raise CandidateError(
                "out_of_bounds",
                f"the kernel wrote outside its outputs: {', '.join(stray_writes)} (at the timed size); check the bounds of every store",
            )
        for output in sorted({tile.output for tile in tiles}):
            chosen = [number for number, tile in enumerate(tiles) if tile.output == output]
            self.compare(slot, kind, [tiles[number] for number in chosen], [expected[number] for number in chosen])
        for output, old_ranges in enumerate(self.ranges):
            old_ranges[:] = merge_ranges([*old_ranges, *(one for ranges in ranges_by_part for one in ranges[output])])
        return tiles

    def get_slot(self, regions: RegionReference) -> BufferSlot:
        """Return the slot of the sparse tensors; it is bound at first use."""
        trial = self.trial
        assert trial.arena is not None
        assert trial.candidate_process is not None
        if self.slot is None:
            self.slot = trial.arena.add_sparse_slot(
                [make_blank_array(tensor) for tensor in regions.arguments], [make_blank_array(tensor) for tensor in regions.outputs]
            )
            scalars = tuple((number.name, number.kind, number.value) for number in regions.scalars)
            with trial.translate_errors():
                trial.candidate_process.bind(self.slot, scalars, in_parts=True)
        return self.slot

    def choose_tiles(self, regions: RegionReference, ranges: Sequence[Sequence[Range]], inner_tiles: int) -> list[Tile]:
        """Choose tiles of what one part writes: at both ends of the first and of the last range of each output, and inside some
        others."""
        tiles = []
        for output, (tensor, own_ranges) in enumerate(zip(regions.outputs, ranges, strict=True)):
            if not own_ranges:
                continue
            inner_ranges = self.random.sample(list(own_ranges), min(len(own_ranges), inner_tiles))
            spots = [own_ranges[0][0], own_ranges[-1][1] - 1, own_ranges[0][1] - 1, own_ranges[-1][0]]
            spots += [self.random.randrange(start, stop) for start, stop in inner_ranges]
            limits = [own_ranges[0], own_ranges[-1], own_ranges[0], own_ranges[-1], *inner_ranges]
            tiles += [Tile(output, find_box(tensor.shape, spot, limit, self.tile_elements)) for spot, limit in zip(spots, limits)]
        return tiles

    def write_inputs(self, regions: RegionReference, slot: BufferSlot, tile: Tile, written_boxes: set[tuple[int, Box]]) -> None:
        """Write the boxes of the inputs that the reference needs for a tile, unless they were written for another tile of the batch."""
        assert self.trial.arena is not None
        boxes = {(index, box) for index, needed in regions.find_needed(tile.output, tile.box).items() for box in needed} - written_boxes
        written_boxes |= boxes
        for index, box in sorted(boxes):
            nbytes = prod(stop - start for start, stop in box) * slot.inputs[index].storage_dtype.itemsize
            self.needed_bytes += nbytes
            if nbytes > MAX_TILE_BYTES:
                raise InfraError(
                    f"{self.trial.job.task.id} cannot be checked at this size: one element depends on {nbytes / 1e9:.3g} GB of `"
                    f"{slot.inputs[index].name}`. Choose --size laptop, or reduce its sizes."
                )
            view = view_tensor(self.trial.arena.inputs, slot.input_span[0], slot.inputs[index])
            for chunk in split_box(box, CHUNK_ELEMENTS):
                view[tuple(slice(start, stop) for start, stop in chunk)] = regions.draw(index, chunk)

    def compare(self, slot: BufferSlot, kind: str, tiles: Sequence[Tile], expected: Sequence[TensorPair]) -> None:
        """Compare all tiles of one output at once: tolerances depend on the magnitude of all of them."""
        trial, output = self.trial, tiles[0].output
        assert trial.arena is not None
        layout = slot.outputs[output]
        view = view_tensor(trial.arena.outputs, slot.output_span[0], layout)
        actual = np.concatenate([view[tile.slices].reshape(-1) for tile in tiles])
        array, truth = join_expected(layout.name, expected)
        tolerance = trial.cases.factory.tolerance
        rule = tolerance.make_region_rule(array, truth if array.dtype in INEXACT else None, kind)
        one = expect_region(array, truth, rule)
        self.compared_elements += array.data.size
        trial.compared_runs += 1
        if difference := one.find_difference(actual, trial.arena.poisons[slot.slot_id][output]):
            raise CandidateError(difference.reason, describe_tiles(difference, tiles, layout.shape))

    @property
    def run_share(self) -> float:
        """The share of the outputs' elements that parts of the kernel computed."""
        return sum(stop - start for ranges in self.ranges for start, stop in ranges) / self.count_elements()

    @property
    def compared_share(self) -> float:
        """The share of the outputs' elements that were compared with the reference, in tiles that may overlap."""
        return min(1.0, self.compared_elements / self.count_elements())

    def count_elements(self) -> int:
        """Return the number of elements of all outputs."""
        return sum(prod(tensor.shape) for tensor in self.trial.job.task.signature.outputs)


def check_in_parts(trial: Trial) -> None:
    """Check the timed size in parts, on inputs of the task's own kind."""
    check = TiledCheck(trial)
    trial.parts_check = check
    check.check("own")


def confirm_in_parts(trial: Trial) -> None:
    """Check a kernel that would become the best on further parts and another kind of inputs."""
    if trial.parts_check is None:
        return
    for kind in ("wide", "normal", "own"):
        try:
            trial.parts_check.check(kind, random_parts=1)
        except UnsuitableInputs:
            continue
        return


def join_expected(name: str, expected: Iterable[TensorPair]) -> tuple[Array, np.ndarray]:
    """Return the tiles of an output one after another: in the reference's own precision, and in float64."""
    import torch

    from evokernel.reference.arrays import to_array

    own, wide = (torch.cat([part.reshape(-1) for part in parts]) for parts in zip(*expected))
    return to_array(name, own), wide.double().numpy()


def expect_region(array: Array, truth: np.ndarray, rule: ToleranceRule) -> ExpectedOutput:
    """Return what to expect of some elements of an output. Where the operator jumps, a value may be between the reference's two answers."""

    def find_ranges(_: int) -> list[ValueRange]:
        answers = (decode_values(array.data, array.dtype).astype(np.float64), truth)
        return [ValueRange(np.minimum(*answers), np.maximum(*answers))]

    return ExpectedOutput(array, rule, truth if array.dtype in INEXACT and array.dtype != "float64" else None, find_ranges)


def find_box(shape: tuple[int, ...], spot: int, limit: Range, most: int = TILE_ELEMENTS) -> Box:
    """Return a box around a flat index inside a range of flat indices: a part of its row, or several rows where rows are short."""
    inner_size, axis = 1, len(shape) - 1
    while axis > 0 and inner_size * shape[axis] <= most:
        row_start = spot - spot % (inner_size * shape[axis])
        if row_start < limit[0] or row_start + inner_size * shape[axis] > limit[1]:
            break
        inner_size, axis = inner_size * shape[axis], axis - 1
    if axis < 0:
        return ()
    row_start = spot - spot % (inner_size * shape[axis])
    here, wanted = (spot - row_start) // inner_size, max(1, most // inner_size)
    low = max(here - wanted // 2, -((row_start - limit[0]) // inner_size) if row_start < limit[0] else 0, 0)
    high = min(here + (wanted + 1) // 2, (limit[1] - row_start) // inner_size, shape[axis])
    outer = np.unravel_index(row_start // (inner_size * shape[axis]), shape[:axis]) if axis else ()
    return (*((int(i), int(i) + 1) for i in outer), (low, high), *((0, size) for size in shape[axis + 1 :]))


def merge_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return sorted, disjoint ranges that cover the same elements."""
    merged: list[Range] = []
    for start, stop in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def describe_tiles(difference: Difference, tiles: Sequence[Tile], shape: tuple[int, ...]) -> str:
    """Describe the wrong elements of the compared tiles by their places in the whole output."""
    wrong_elements = np.flatnonzero(difference.wrong_mask)
    starts = np.cumsum([0, *(prod(tile.shape) for tile in tiles)])
    lines = [
        f"output `{difference.name}` of shape {list(shape)} is wrong at the timed size, of which some parts were run: "
        f"{len(wrong_elements)} of {difference.wrong_mask.size} compared elements"
    ]
    if difference.unwritten_count:
        lines.append(f"never written: {difference.unwritten_count} elements: write every element of the block")
    shown = []
    for element in wrong_elements[:MAX_SHOWN]:
        number = int(np.searchsorted(starts, element, "right")) - 1
        inside = np.unravel_index(int(element - starts[number]), tiles[number].shape)
        place = [int(i) + start for i, (start, _) in zip(inside, tiles[number].box)]
        shown.append(f"{place} expected {format_number(difference.expected[element])}, got {format_number(difference.actual[element])}")
    lines.append("first wrong: " + "; ".join(shown))
    lines.append("smaller sizes were correct: check index types, limits of counters, long sums in a float, and tails of blocks")
    return "\n".join(lines)
