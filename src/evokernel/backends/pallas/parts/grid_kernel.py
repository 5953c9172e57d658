"""A kernel of a traced program whose output blocks are computed on demand, each by the grid steps that write it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode
from jax._src.pallas.mosaic.interpret import utils

from evokernel.backends.pallas.interpret import MAX_GRID_STEPS, check_parallel_prefix
from evokernel.backends.pallas.interpret_patches import source_line
from evokernel.backends.pallas.parts.grid_blocks import BlockTable
from evokernel.backends.pallas.parts.lazy_arrays import Box, LazyArray, element_strides, refuse_size, unravel
from evokernel.backends.pallas.parts.step_runner import KernelOperands, Segment, StepRunner
from evokernel.backends.pallas.parts.tracked_buffers import CarriedStateRead
from evokernel.core.errors import CandidateError

MAX_WHOLE_BYTES = 512 << 20
"""Bytes of the arrays of a kernel that cannot be divided and therefore runs completely."""
MAX_STORED_BYTES = 1 << 30
"""Bytes of the computed output blocks of one kernel."""


class StepCount:
    """Counts the grid steps that some parts of a program run, in all its kernels."""

    def __init__(self) -> None:
        self.total, self.part_count = 0, 1

    def start(self, part_count: int) -> None:
        """Set the count of steps to zero."""
        self.total, self.part_count = 0, part_count

    def add(self, steps: int, where: str) -> None:
        """Raises CandidateError if the parts take too many steps."""
        self.total += steps
        if steps > MAX_GRID_STEPS or self.total > MAX_GRID_STEPS * self.part_count:
            taken = max(steps, self.total // self.part_count)
            text = f"one output block takes {taken} grid steps{where}, the limit for interpret mode is {MAX_GRID_STEPS}"
            raise CandidateError("timeout", f"{text}: use larger blocks along the dimensions that it accumulates over")


class GridKernel:
    """One `pallas_call` with lazy operands.

    An output block needs the steps that write it, which are consecutive. It also needs earlier steps if these leave state that the steps
    read: scratch memory, another output's block, or a copy in flight. The kernel does not declare that, so the run finds it: memory is
    undefined when a part starts, and a read of undefined memory, or a wait for a copy that was not started, ends the run. Then the part
    starts earlier: where the last grid dimension is zero, then where the last two are, and so on. Because every value that the steps read
    was written by a step of the part, the part computes what a run of all steps would. A part never starts before the first step of its
    parallel dimensions, because these may run in any order; there, undefined memory is undefined in a run of all steps as well.
    """

    def __init__(self, call: Any, operands: Sequence[LazyArray], count: StepCount, detect_races: bool) -> None:
        check_parallel_prefix(call)
        self.params, self.count = call.params, count
        self.mapping = self.params["grid_mapping"]
        self.where = source_line(call.source_info)
        self.table = BlockTable(self.params)
        self.runner = StepRunner(call, self.table, detect_races)
        self.scalars, self.operands = operands[: self.mapping.num_index_operands], operands[self.mapping.num_index_operands :]
        self.outputs = [KernelOutput(self, number) for number in range(self.mapping.num_outputs)]
        self.level = 0
        """The number of trailing grid dimensions at whose start a part begins."""

    def is_in_hbm(self, number: int) -> bool:
        """Whether the kernel accesses an operand or output in HBM itself."""
        return mode._forward_any_to_hbm(self.table.blocks[number].transformed_block_aval.memory_space) is mode._HBM

    @cached_property
    def aliases(self) -> dict[int, int]:
        """Operands by the outputs that use their memory."""
        return {output: operand - len(self.scalars) for operand, output in self.params["input_output_aliases"]}

    @cached_property
    def is_divisible(self) -> bool:
        """Whether index maps say which steps write an output block; else the kernel runs completely."""
        numbers = [self.mapping.num_inputs + output for output in range(self.mapping.num_outputs)]
        if any(self.is_in_hbm(number) or not self.table.has_disjoint_blocks(number) for number in numbers):
            return False
        return all(table.is_constant for table in self.scalars) or not any(self.table.reads_tables(number) for number in numbers)

    @cached_property
    def visits(self) -> list[np.ndarray]:
        """Per output, the number of the block at every step. Checks the index maps for the complete grid."""
        steps = np.arange(self.table.step_count)
        known = all(table.is_constant for table in self.scalars)
        tables = [scalar.read_all() if known else np.zeros(scalar.shape, scalar.dtype) for scalar in self.scalars]
        starts = self.table.find_starts(steps, tables)
        for number, rows in enumerate(starts):
            if known or not self.table.reads_tables(number):
                self.table.check_bounds(number, steps, rows)
        inputs = self.mapping.num_inputs
        numbers = [self.table.number_blocks(inputs + output, starts[inputs + output]) for output in range(len(self.outputs))]
        for output, row in enumerate(numbers):
            if output not in self.aliases:
                self.table.check_visits(inputs + output, row)
            elif np.count_nonzero(np.diff(row)) + 1 != len(np.unique(row)):
                raise refuse_size(f"a kernel with `input_output_aliases` that visits a block twice{self.where}", "visit each block once")
        return numbers

    def plan_segments(self, output: int, blocks: Sequence[int]) -> list[tuple[np.ndarray, list[int]]]:
        """The consecutive steps that compute blocks, with the blocks. Blocks share their steps where these overlap."""
        inner = math.prod(self.table.grid[len(self.table.grid) - self.level :])
        segments: list[tuple[int, int, list[int]]] = []
        for first, last, block in sorted((*self.find_own_steps(output, block), block) for block in blocks):
            start = first // inner * inner
            if segments and start < segments[-1][1]:
                segments[-1] = (segments[-1][0], last + 1, [*segments[-1][2], block])
            else:
                segments.append((start, last + 1, [block]))
        return [(np.arange(start, stop), members) for start, stop, members in segments]

    @cached_property
    def runs(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Per output: the numbers of its visited blocks in order, and the first and the last step of each."""
        result = []
        for visits in self.visits:
            first = np.flatnonzero(np.diff(visits, prepend=-1))
            order = np.argsort(visits[first])
            result.append((visits[first][order], first[order], (np.append(first[1:], visits.size) - 1)[order]))
        return result

    def find_own_steps(self, output: int, block: int) -> tuple[int, int]:
        """The first and the last step that write a block."""
        blocks, first, last = self.runs[output]
        place = int(np.searchsorted(blocks, block))
        return int(first[place]), int(last[place])

    def compute_blocks(self, output: int, blocks: Sequence[int]) -> None:
        """Runs the parts that compute these blocks of an output, unless they are stored."""
        while missing := [block for block in blocks if block not in self.outputs[output].blocks]:
            segments = self.plan_segments(output, missing)
            for steps, _ in segments:
                self.count.add(len(steps), self.where)
            try:
                self.run_segments([(steps, [self.find_own_steps(output, block) for block in members]) for steps, members in segments])
            except CarriedStateRead:
                self.count.total -= sum(len(steps) for steps, _ in segments)
                self.level += 1

    def run_segments(self, segments: Sequence[tuple[np.ndarray, list[tuple[int, int]]]]) -> None:
        """Runs segments of consecutive steps; stores the blocks that are complete in the given first and last steps of each segment."""
        operands = KernelOperands([scalar.read_all() for scalar in self.scalars], self.operands)
        every_step = np.concatenate([steps for steps, _ in segments])
        starts = self.table.find_starts(every_step, operands.tables)
        for number, rows in enumerate(starts[: self.mapping.num_inputs]):
            self.table.check_bounds(number, every_step, rows)
        self.require_operands(starts)
        edges = np.cumsum([len(steps) for steps, _ in segments])[:-1]
        parts = [np.split(rows, edges) for rows in starts]
        begins = np.array([steps[0] for steps, _ in segments])

        def write(output: int, step: int, start: np.ndarray, value: np.ndarray) -> None:
            segment = int(np.searchsorted(begins, step, side="right")) - 1
            first, last = self.find_own_steps(output, block := int(self.visits[output][step]))
            if first >= begins[segment] and last == step and any(begin <= step <= end for begin, end in segments[segment][1]):
                self.outputs[output].store_block(block, value)

        planned = [Segment(steps, [rows[number] for rows in parts]) for number, (steps, _) in enumerate(segments)]
        self.runner.run(planned, operands, write, {}, is_strict=self.level < self.table.serial_count)

    def require_operands(self, starts: Sequence[np.ndarray]) -> None:
        """Computes the parts of the operands that other kernels write and these steps read."""
        for number, operand in enumerate(self.operands):
            if not operand.depends_on_kernel:
                continue
            if self.is_in_hbm(number):
                operand.require_box(tuple((0, size) for size in operand.shape))
                continue
            for row in np.unique(starts[number], axis=0):
                sizes = zip(row.tolist(), self.table.sizes[number], operand.shape, strict=True)
                operand.require_box(tuple((start, min(start + size, total)) for start, size, total in sizes))

    def run_all(self) -> None:
        """Runs all steps of a kernel that cannot be divided."""
        arrays = [*(operand for operand in self.operands), *self.outputs]
        size = sum(array.size * array.dtype.itemsize for array in arrays)
        if size > MAX_WHOLE_BYTES:
            subject = f"a kernel{self.where} that copies to its outputs itself, or whose output blocks depend on data or overlap,"
            raise refuse_size(subject, "let BlockSpecs with index maps of the grid indices divide its outputs into blocks")
        if self.aliases and any(self.is_in_hbm(self.mapping.num_inputs + output) for output in self.aliases):
            raise refuse_size(f"a kernel{self.where} with `input_output_aliases` of arrays in HBM", "write to a separate output")
        steps = np.arange(self.table.step_count)
        self.count.add(len(steps), self.where)
        tables = [scalar.read_all() for scalar in self.scalars]
        starts = self.table.find_starts(steps, tables)
        for number, rows in enumerate(starts):
            self.table.check_bounds(number, steps, rows)
        self.require_operands(starts)
        inputs, contents = self.mapping.num_inputs, {}
        for output, array in enumerate(self.outputs):
            undefined = utils.get_uninitialized_value(array.dtype, "nan")
            contents[output] = np.full(self.table.padded_shape(inputs + output), undefined, array.dtype)
        sizes = self.table.sizes

        def write(output: int, step: int, start: np.ndarray, value: np.ndarray) -> None:
            part = tuple(slice(first, first + size) for first, size in zip(start.tolist(), sizes[inputs + output]))
            contents[output][part] = value.reshape(sizes[inputs + output])

        direct = {output: content for output, content in contents.items() if self.is_in_hbm(inputs + output)}
        self.runner.run([Segment(steps, starts)], KernelOperands(tables, self.operands), write, direct, is_strict=False)
        for output, array in enumerate(self.outputs):
            array.whole = contents[output][tuple(map(slice, array.shape))]


class KernelOutput(LazyArray):
    """An output of a kernel: the blocks that were computed."""

    def __init__(self, kernel: GridKernel, output: int) -> None:
        aval = kernel.params["out_avals"][output]
        super().__init__(aval.shape, aval.dtype, depends_on_kernel=True)
        self.kernel, self.output = kernel, output
        self.number = kernel.mapping.num_inputs + output
        self.blocks: dict[int, np.ndarray] = {}
        self.whole: np.ndarray | None = None

    def forget_values(self) -> None:
        self.blocks.clear()
        self.whole = None

    def store_block(self, block: int, value: np.ndarray) -> None:
        box = self.kernel.table.find_box(self.number, block)
        value = value.reshape(self.kernel.table.sizes[self.number])[tuple(slice(0, stop - start) for start, stop in box)]
        if (len(self.blocks) + 1) * value.nbytes > MAX_STORED_BYTES:
            subject = f"an output block that takes more than {MAX_STORED_BYTES >> 30} GiB of another kernel's output"
            raise refuse_size(subject, "compute it in one kernel")
        self.blocks[block] = value.copy()

    def list_unwritten_blocks(self, limit: int) -> np.ndarray:
        """The numbers of blocks that no step writes: the first `limit` or more if there are that many."""
        visits = self.kernel.visits[self.output]
        total = min(math.prod(self.kernel.table.block_counts(self.number)), visits.size + limit)
        is_written = np.zeros(total, bool)
        is_written[visits[visits < total]] = True
        return np.flatnonzero(~is_written)

    def require_blocks(self, blocks: np.ndarray) -> None:
        """Computes blocks. Blocks that no step writes are undefined."""
        if not self.kernel.is_divisible:
            if self.whole is None:
                self.kernel.run_all()
            return
        is_written = np.isin(blocks, self.kernel.visits[self.output])
        self.kernel.compute_blocks(self.output, blocks[is_written].tolist())
        for block in blocks[~is_written].tolist():
            sizes = self.kernel.table.sizes[self.number]
            if self.output in self.kernel.aliases:
                box = self.kernel.table.find_box(self.number, block)
                operand = self.kernel.operands[self.kernel.aliases[self.output]]
                operand.require_box(box)
                self.blocks[block] = operand.read_box(box)
            else:
                self.store_block(block, np.full(sizes, utils.get_uninitialized_value(self.dtype, "nan"), self.dtype))

    def find_blocks(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For elements: the numbers of their blocks, and their coordinates as rows."""
        coordinates = unravel(flat, self.shape)
        blocks = np.zeros(flat.shape, np.int64)
        table = self.kernel.table
        for index, size, count in zip(coordinates, table.sizes[self.number], table.block_counts(self.number), strict=True):
            blocks = blocks * count + index // size
        return blocks, np.stack(coordinates) if coordinates else np.zeros((0, flat.size), np.int64)

    def require(self, flat: np.ndarray) -> None:
        self.require_blocks(np.unique(self.find_blocks(flat)[0]))

    def read(self, flat: np.ndarray) -> np.ndarray:
        if self.whole is not None:
            whole: np.ndarray = self.whole.reshape(-1)[flat]
            return whole
        numbers, coordinates = self.find_blocks(flat)
        values = np.empty(flat.shape, self.dtype)
        for number in np.unique(numbers).tolist():
            places = np.flatnonzero(numbers == number)
            box = self.kernel.table.find_box(self.number, number)
            inside = tuple(index[places] - start for index, (start, _) in zip(coordinates, box))
            values[places] = self.blocks[number][inside]
        return values

    def list_blocks(self, box: Box) -> np.ndarray:
        """The numbers of the blocks that overlap a box."""
        table = self.kernel.table
        ranges = [np.arange(start // size, -(-stop // size)) for (start, stop), size in zip(box, table.sizes[self.number], strict=True)]
        numbers = np.zeros((), np.int64)
        for indices, stride in zip(ranges, element_strides(table.block_counts(self.number)), strict=True):
            numbers = numbers[..., None] + indices * stride
        return numbers.reshape(-1)

    def require_box(self, box: Box) -> None:
        self.require_blocks(self.list_blocks(box))

    def read_box(self, box: Box) -> np.ndarray:
        if self.whole is not None:
            return self.whole[tuple(slice(*bounds) for bounds in box)]
        values = np.empty([stop - start for start, stop in box], self.dtype)
        for number in self.list_blocks(box).tolist():
            place = self.kernel.table.find_box(self.number, number)
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, place)]
            target = tuple(slice(a - start, b - start) for (a, b), (start, _) in zip(common, box))
            source = tuple(slice(a - start, b - start) for (a, b), (start, _) in zip(common, place))
            values[target] = self.blocks[number][source]
        return values
