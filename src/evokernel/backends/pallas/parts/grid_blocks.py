"""The blocks that the grid steps of a kernel read and write: start indices for many steps at once, and checks of the complete grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas import core as pallas

from evokernel.backends.pallas.interpret import XLA_OPTIONS, dimension_semantics, is_parallel
from evokernel.backends.pallas.interpret_errors import block_outside_error, revisited_error
from evokernel.backends.pallas.program_rules import all_equations
from evokernel.core.errors import CandidateError

MAX_CHUNK = 1 << 16
"""Steps whose index maps are evaluated at once."""


class BlockTable:
    """The start indices of all blocks of one kernel. `grid` counts steps in the order of execution, the last dimension fastest."""

    def __init__(self, params: dict[str, Any]) -> None:
        self.mapping = params["grid_mapping"]
        self.grid = tuple(self.mapping.grid)
        self.step_count = math.prod(self.grid)
        self.blocks = self.mapping.block_mappings
        self.sizes = [pallas._get_block_shape(block.block_shape) for block in self.blocks]
        self.shapes = [tuple(block.array_aval.shape) for block in self.blocks]
        self.semantics = dimension_semantics(params)
        names = params["jaxpr"].debug_info.arg_names
        first = self.mapping.num_index_operands
        self.names = [str(names[first + i]) if names else f"argument {i}" for i in range(len(self.blocks))]
        self.compiled: dict[int, Any] = {}

    @cached_property
    def serial_count(self) -> int:
        """The number of trailing grid dimensions that are not parallel."""
        return sum(not is_parallel(kind) for kind in self.semantics)

    def padded_shape(self, number: int) -> tuple[int, ...]:
        """The shape of an array with its last blocks completed, as interpret mode allocates it."""
        return tuple(-(-size // block) * block for size, block in zip(self.shapes[number], self.sizes[number], strict=True))

    def block_counts(self, number: int) -> tuple[int, ...]:
        """The number of blocks of an array per dimension."""
        return tuple(-(-size // block) for size, block in zip(self.shapes[number], self.sizes[number], strict=True))

    def has_disjoint_blocks(self, number: int) -> bool:
        """Whether start indices are multiples of the block size, so that two blocks are equal or disjoint."""
        return all(isinstance(size, pallas.Blocked | pallas.Squeezed) for size in self.blocks[number].block_shape)

    def reads_tables(self, number: int) -> bool:
        """Whether an index map reads a prefetched table."""
        return any(equation.primitive.name == "get" for equation in all_equations(self.blocks[number].index_map_jaxpr.jaxpr))

    def find_points(self, steps: np.ndarray) -> np.ndarray:
        """The grid indices of these steps, one row per step."""
        return np.stack(np.unravel_index(steps, self.grid), 1) if self.grid else np.zeros((len(steps), 0), np.int64)

    def find_starts(self, steps: np.ndarray, tables: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Per block mapping, the start indices at these steps, one row per step."""
        chunk = min(1 << max(len(steps) - 1, 0).bit_length(), MAX_CHUNK)
        parts: list[list[np.ndarray]] = []
        for first in range(0, len(steps), chunk):
            part = steps[first : first + chunk]
            points = self.find_points(np.pad(part, (0, chunk - len(part)), mode="edge")).astype(np.int32)
            results = self.compile_index_maps(chunk, tables)(points, *tables)
            parts.append([np.asarray(result)[: len(part)].astype(np.int64) for result in results])
        return [np.concatenate(columns) for columns in zip(*parts)]

    def compile_index_maps(self, count: int, tables: Sequence[np.ndarray]) -> Any:
        """All index maps as one function of `count` grid points."""
        if count not in self.compiled:
            shapes = [jax.ShapeDtypeStruct((count, len(self.grid)), jnp.int32)]
            shapes += [jax.ShapeDtypeStruct(table.shape, table.dtype) for table in tables]
            function = jax.vmap(self.evaluate_index_maps, in_axes=(0, *(None for _ in tables)))
            self.compiled[count] = jax.jit(function).trace(*shapes).lower(lowering_platforms=("cpu",)).compile(XLA_OPTIONS)
        return self.compiled[count]

    def evaluate_index_maps(self, point: Any, *tables: Any) -> list[Any]:
        indices = [point[axis] for axis in range(len(self.grid))]
        axes = [pallas.GridAxis(index, size) for index, size in zip(indices, self.grid)]
        kept = [axis for number, axis in enumerate(axes) if number not in self.mapping.vmapped_dims]
        with pallas.grid_env(tuple(kept)):
            starts = [block.compute_start_indices_interpret(tuple(indices), *tables) for block in self.blocks]
        return [jnp.stack([jnp.asarray(start, jnp.int32) for start in each]) if each else jnp.zeros((0,), jnp.int32) for each in starts]

    def number_blocks(self, number: int, starts: np.ndarray) -> np.ndarray:
        """Start indices as numbers of blocks, counted in row-major order."""
        numbers = np.zeros(len(starts), np.int64)
        for column, (count, size) in enumerate(zip(self.block_counts(number), self.sizes[number], strict=True)):
            numbers = numbers * count + starts[:, column] // size
        return numbers

    def find_box(self, number: int, block: int) -> tuple[tuple[int, int], ...]:
        """The part of the array that a block covers."""
        index = np.unravel_index(block, self.block_counts(number)) if self.shapes[number] else ()
        return tuple(
            (int(i) * size, min((int(i) + 1) * size, total))
            for i, size, total in zip(index, self.sizes[number], self.shapes[number], strict=True)
        )

    def check_bounds(self, number: int, steps: np.ndarray, starts: np.ndarray) -> None:
        """Raises CandidateError for the first step with a block outside the array."""
        sizes, shape = np.array(self.sizes[number], np.int64), np.array(self.padded_shape(number), np.int64)
        outside = ((starts < 0) | (starts + sizes > shape)).any(axis=1)
        if outside.any():
            row = int(outside.argmax())
            index = [
                int(start) // size if isinstance(kind, pallas.Blocked) else int(start)
                for start, size, kind in zip(starts[row], self.sizes[number], self.blocks[number].block_shape)
            ]
            step = tuple(self.find_points(steps[row : row + 1])[0].tolist())
            raise block_outside_error(str(tuple(index)), self.names[number], str(step), str(self.shapes[number]))

    def check_visits(self, number: int, numbers: np.ndarray) -> None:
        """Raises CandidateError unless the steps that use one output block are consecutive and agree in all parallel dimensions."""
        output = number - self.mapping.num_inputs
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        order = np.argsort(numbers[starts], kind="stable")
        repeated = np.flatnonzero(np.diff(numbers[starts][order]) == 0)
        if repeated.size:
            first, again = starts[order[repeated[0]]], starts[order[repeated[0] + 1]]
            last = starts[order[repeated[0]] + 1] - 1 if order[repeated[0]] + 1 < len(starts) else first
            points = self.find_points(np.array([last, again]))
            raise revisited_error(str(output), str(tuple(points[0].tolist())), str(tuple(points[1].tolist())))
        serial = math.prod(self.grid[len(self.grid) - self.serial_count :])
        ends = np.append(starts[1:], len(numbers)) - 1
        shared = np.flatnonzero(starts // serial != ends // serial)
        if shared.size:
            text = f"race: a block of output {output} is written in grid steps that differ in a parallel dimension"
            fix = "declare the dimension arbitrary, or let each step write a separate block"
            raise CandidateError("race", f"{text}, so two cores may do so at the same time: {fix}")
