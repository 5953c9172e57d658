"""Runs chosen grid steps of one kernel in interpret mode, with the values that a run of all steps would give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.pallas import core as pallas
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode
from jax._src.pallas.mosaic.interpret import utils
from jax._src.state import indexing
from jax.experimental.pallas import tpu

from evokernel.backends.pallas.interpret import XLA_OPTIONS, make_settings
from evokernel.backends.pallas.interpret_errors import FailureReporter
from evokernel.backends.pallas.interpret_patches import RunRecord, patched_interpret_mode
from evokernel.backends.pallas.parts.grid_blocks import BlockTable
from evokernel.backends.pallas.parts.guarded_reads import guard_reads
from evokernel.backends.pallas.parts.lazy_arrays import LazyArray
from evokernel.backends.pallas.parts.tracked_buffers import (
    AccessTracker,
    CarriedStateRead,
    InputBuffer,
    OperandBuffer,
    ScratchBuffer,
    tracked_stores,
    uses_swapped_values,
)
from evokernel.backends.pallas.tpu_rounding import add_tpu_rounding
from evokernel.core.errors import CandidateError

TOKEN, DEVICE, CORE = np.int32(mode.TOP_LEVEL_TOKEN_VALUE), np.int32(0), np.int32(0)
SPACES = mode.TPU_MEMORY_SPACE_IDXS
HBM = SPACES[mode._HBM]


@dataclass(frozen=True)
class Segment:
    """Consecutive grid steps that start with undefined scratch memory."""

    steps: np.ndarray
    starts: list[np.ndarray]
    """Per block mapping, the start indices at each step."""


@dataclass(frozen=True)
class KernelOperands:
    """The operands of a kernel at one call."""

    tables: list[np.ndarray]
    """Prefetched tables."""
    arrays: Sequence[LazyArray]


class StepRunner:
    """Runs steps of one `pallas_call` equation. The body is compiled once, for any step."""

    def __init__(self, call: Any, table: BlockTable, detect_races: bool) -> None:
        self.params, self.table = call.params, table
        self.mapping = self.params["grid_mapping"]
        self.body = add_tpu_rounding(guard_reads(self.params["jaxpr"]))
        self.settings = make_settings(detect_races, cores=1)
        self.reporter = FailureReporter([call])
        self.counts_swaps = uses_swapped_values(self.body)
        self.compiled: Any = None
        self.tracker = AccessTracker(is_strict=True, counts_swaps=self.counts_swaps)

    def run(
        self,
        segments: Sequence[Segment],
        operands: KernelOperands,
        write: Callable[[int, int, np.ndarray, np.ndarray], None],
        hbm_outputs: dict[int, np.ndarray],
        is_strict: bool,
    ) -> None:
        """Runs the segments. Calls `write(output, step, start indices, block)` when a step completes a block.

        Raises CarriedStateRead if `is_strict` and a segment reads state of an earlier step.
        """
        self.tracker = AccessTracker(is_strict, self.counts_swaps)
        with patched_interpret_mode() as record, tracked_stores(lambda: self.tracker), self.translated_errors(record):
            session = StepSession(self, operands, hbm_outputs)
            if self.compiled is None:
                self.compile_step(session.buffer_ids)
            for segment in segments:
                session.reset()
                self.run_segment(segment, session, write)
                if is_strict and session.has_signals_left():
                    raise CarriedStateRead("a step leaves a signal to the next one")
                if segment.steps[-1] == self.table.step_count - 1:
                    validate: Any = mode._validate
                    validate(TOKEN, DEVICE)
        if record.races:
            raise CandidateError("race", self.reporter.describe_race(*record.races[0]))

    @contextmanager
    def translated_errors(self, record: RunRecord) -> Iterator[None]:
        try:
            yield
        except (jax.errors.JaxRuntimeError, AssertionError, AttributeError, LookupError, NotImplementedError, RuntimeError) as error:
            raise self.explain_failure(record.failure or error, record) from error
        except (TypeError, ValueError) as error:
            raise self.explain_failure(record.failure or error, record) from error

    def explain_failure(self, failure: Exception, record: RunRecord) -> Exception:
        if isinstance(failure, CarriedStateRead):
            return failure
        if self.tracker.is_strict and isinstance(failure, CandidateError) and failure.reason == "timeout":
            return CarriedStateRead("a step waits for a copy that an earlier step started")
        return self.reporter.to_candidate_error(failure, record)

    def compile_step(self, buffer_ids: Sequence[np.ndarray]) -> None:
        shapes = [jax.ShapeDtypeStruct((), jnp.int32), jax.ShapeDtypeStruct((len(self.table.grid),), jnp.int32)]
        shapes += [jax.ShapeDtypeStruct(ids.shape, ids.dtype) for ids in buffer_ids]
        self.compiled = jax.jit(self.interpret_step).trace(*shapes).lower(lowering_platforms=("cpu",)).compile(XLA_OPTIONS)

    def interpret_step(self, token: Any, point: Any, *buffer_ids: Any) -> Any:
        """One execution of the kernel's body at a grid point."""
        context = mode.InterpretContext(
            grid_point=point,
            grid_mapping=self.mapping,
            mesh=None,
            axis_sizes={},
            axis_indices={},
            device_id=jnp.int32(0),
            local_core_id=jnp.int32(0),
            mosaic_params=self.params["compiler_params"] or tpu.CompilerParams(),
            interpret_params=self.settings,
        )
        axes = [pallas.GridAxis(point[axis], size) for axis, size in enumerate(self.table.grid) if axis not in self.mapping.vmapped_dims]
        interpret: Any = mode._interpret_jaxpr
        with pallas.grid_env(tuple(axes)):
            token, _ = interpret(self.body, *buffer_ids, ctx=context, token=token)
        return token

    def run_segment(self, segment: Segment, session: StepSession, write: Callable[[int, int, np.ndarray, np.ndarray], None]) -> None:
        points = self.table.find_points(segment.steps).astype(np.int32)
        inputs = self.mapping.num_inputs
        for row, step in enumerate(segment.steps):
            for number in session.piped:
                starts = segment.starts[number]
                if number < inputs and (row == 0 or (starts[row] != starts[row - 1]).any()):
                    session.fetch_block(number, starts[row])
            self.compiled(TOKEN, points[row], *session.buffer_ids).block_until_ready()
            for number in session.piped:
                starts = segment.starts[number]
                if number >= inputs and (row + 1 == len(points) or (starts[row] != starts[row + 1]).any()):
                    write(number - inputs, int(step), starts[row], session.take_block(number))


class StepSession:
    """The simulated memory of one run: allocates the kernel's buffers in the order of interpret mode."""

    def __init__(self, runner: StepRunner, operands: KernelOperands, hbm_outputs: dict[int, np.ndarray]) -> None:
        self.runner, self.tracker = runner, runner.tracker
        mapping, table = runner.mapping, runner.table
        start: Any = mode._initialize_shared_memory
        start(TOKEN, DEVICE, 1, 1, interpret_params=runner.settings)
        self.memory: Any = mode._shared_memory
        hbm_ids = []
        for number, array in enumerate(operands.arrays):
            hbm_ids.append(self.allocate(HBM, OperandBuffer(array, table.padded_shape(number), self.tracker)))
        aliases = {output: operand - mapping.num_index_operands for operand, output in runner.params["input_output_aliases"]}
        for output in range(mapping.num_outputs):
            if output in aliases:
                hbm_ids.append(hbm_ids[aliases[output]])
            else:
                content = hbm_outputs.get(output)
                hbm_ids.append(self.allocate(HBM, mode.memory.Buffer(np.zeros(1, np.int8) if content is None else content)))
        self.hbm_ids = hbm_ids
        self.buffer_ids = [self.allocate(SPACES[tpu.MemorySpace.SMEM], mode.memory.Buffer(np.array(table))) for table in operands.tables]
        self.piped: list[int] = []
        self.kept: list[ScratchBuffer] = []
        for number, variable in enumerate(runner.body.invars[mapping.num_index_operands :]):
            self.buffer_ids.append(self.allocate_argument(number, variable.aval))
        self.block_ids = self.buffer_ids[mapping.num_index_operands :]

    def allocate_argument(self, number: int, aval: Any) -> np.ndarray:
        """The buffer of an argument of the kernel's body: a block, an array in HBM, scratch memory or semaphores."""
        blocks = self.runner.table.blocks
        space = mode._forward_any_to_hbm(blocks[number].transformed_block_aval.memory_space if number < len(blocks) else aval.memory_space)
        if space is mode._SEMAPHORE:
            allocate: Any = mode._allocate_semaphores
            return np.asarray(allocate(TOKEN, DEVICE, None, aval.shape)[1])
        if space is mode._HBM:
            return self.hbm_ids[number]
        content = np.full(aval.shape, utils.get_uninitialized_value(aval.dtype, "nan"), aval.dtype)
        if number < self.runner.mapping.num_inputs:
            self.piped.append(number)
            return self.allocate(SPACES[space], InputBuffer(content, self.tracker))
        buffer = ScratchBuffer(content, self.tracker)
        self.kept.append(buffer)
        if number < len(blocks):
            self.piped.append(number)
        return self.allocate(SPACES[space], buffer)

    def allocate(self, space: int, buffer: Any) -> np.ndarray:
        number = self.memory.get_next_buffer_id(0, 0)
        self.memory.mem[mode.TPU_MEMORY_SPACE_NAMES[space], number, 0, 0] = buffer
        return np.asarray(number, np.int16)

    def reset(self) -> None:
        """Makes memory of the core undefined and drops copies in flight: the next step does not follow the last one."""
        for buffer in self.kept:
            buffer.reset()
        for semaphore in self.memory.sem.values():
            semaphore.count_by_core[...] = 0
            for tasks in semaphore.tasks:
                tasks.clear()

    def has_signals_left(self) -> bool:
        """Whether a semaphore is not zero, so that a wait of the next step may end before its copy does."""
        return any(semaphore.count_by_core.any() for semaphore in self.memory.sem.values())

    def find_space(self, number: int) -> int:
        return int(SPACES[mode._forward_any_to_hbm(self.runner.table.blocks[number].transformed_block_aval.memory_space)])

    def fetch_block(self, number: int, starts: np.ndarray) -> None:
        """Copies a block of an input into the kernel's buffer."""
        table, get, store = self.runner.table, mode.get, mode.store
        is_index = [isinstance(kind, pallas.Squeezed) for kind in table.blocks[number].block_shape]
        indices = tuple(
            int(start) if squeezed else indexing.Slice(int(start), size)
            for start, size, squeezed in zip(starts, table.sizes[number], is_index)
        )
        part = indexing.NDIndexer(indices=indices, shape=table.padded_shape(number), int_indexer_shape=())
        _, value = get(TOKEN, DEVICE, CORE, HBM, self.hbm_ids[number], (part,))
        self.tracker.in_pipeline = True
        store(TOKEN, DEVICE, CORE, self.find_space(number), self.block_ids[number], (), value)
        self.tracker.in_pipeline = False

    def take_block(self, number: int) -> np.ndarray:
        """The content of an output block, which becomes undefined afterwards."""
        space, ids = self.find_space(number), self.block_ids[number]
        self.tracker.in_pipeline = True
        _, value = mode.get(TOKEN, DEVICE, CORE, space, ids, ())
        self.tracker.in_pipeline = False
        self.memory.mem[mode.TPU_MEMORY_SPACE_NAMES[space], int(ids), 0, 0].reset()
        return np.asarray(value)
