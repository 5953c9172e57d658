"""Patches of Pallas' TPU interpret mode, which replace some of its functions while a program is interpreted.

The replaced names are internals of the pinned version of JAX. The replacements have the same meaning and are faster, or detect more errors:

- The cores take turns in one program, instead of running in threads that compile one program each.
- The order of parallel grid steps is drawn before the program is compiled.
- Callbacks receive numpy arrays without conversion.
- The race detector drops accesses that can no longer be part of a race.
- A wait that can never be satisfied raises an error.
- The buffer of an output becomes invalid once it is written out.
- Transfers that the kernel never waits for are reported.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src import callback as callbacks
from jax._src import dispatch, source_info_util
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as mode
from jax._src.pallas.mosaic.interpret import race_detection_state, shared_memory, utils

from evokernel.core.errors import CandidateError

Bounds: TypeAlias = tuple[tuple[int, int], ...]
FIRST_TRANSFER_AGENT = 100
"""Agents of memory accesses with this number or a higher one are transfers; lower numbers are devices."""


@dataclasses.dataclass
class MemoryAccess:
    """One access to a part of a buffer; `agent` is the number of a core or of a transfer."""

    agent: tuple[int, int]
    clock: Any
    part: tuple[Any, ...]
    source: Any
    writes: bool

    @cached_property
    def bounds(self) -> Bounds:
        """Start and stop index per dimension; strides are ignored."""
        return tuple((int(i.start), int(i.stop)) if isinstance(i, slice) else (int(i), int(i) + 1) for i in self.part)

    @property
    def is_transfer(self) -> bool:
        return self.agent[0] >= FIRST_TRANSFER_AGENT


@dataclasses.dataclass
class RunRecord:
    """Events of one run of a program."""

    kernel_count: int = 0
    """Number of kernels that have started."""
    races: list[tuple[int, tuple[Any, ...], MemoryAccess, MemoryAccess]] = dataclasses.field(default_factory=list)
    """Kernel, buffer, and the two unordered accesses."""
    last_callback: tuple[Any, tuple[Any, ...]] = (None, ())
    """The last callback function and its flat arguments."""
    transfer_count: int = 0
    failure: Exception | None = None
    """The exception a callback raised; XLA passes on only its text."""


record = RunRecord()


class RaceDetector(race_detection_state.RaceDetectionState):  # type: ignore[misc]
    """Stores only the last access of each agent to the same part: an access that races with an earlier one also races with the last one.

    It compares parts before clocks, because most accesses of a kernel that copies row by row do not overlap.
    """

    def __init__(self, num_cores: int) -> None:
        super().__init__(num_cores)
        record.kernel_count += 1
        self.accesses: dict[tuple[Any, bool], dict[Bounds, list[MemoryAccess]]] = {}

    def check_read(self, device: int, core: int, clock: Any, buffer: Any, part: Any, source_info: Any = None) -> None:
        access = MemoryAccess((device, core), clock, part, source_info, writes=False)
        self.record_races(buffer, access, writes=True)
        self.store_access(buffer, access)

    def check_write(self, device: int, core: int, clock: Any, buffer: Any, part: Any, source_info: Any = None) -> None:
        access = MemoryAccess((device, core), clock, part, source_info, writes=True)
        self.record_races(buffer, access, writes=True)
        self.record_races(buffer, access, writes=False)
        self.store_access(buffer, access)

    def record_races(self, buffer: Any, access: MemoryAccess, writes: bool) -> None:
        access_bounds = access.bounds
        if any(first < 0 for first, _ in access_bounds):
            raise IndexError("Out-of-bounds access at a negative index")
        for bounds, others in self.accesses.get((buffer, writes), {}).items():
            if not do_overlap(access_bounds, bounds):
                continue
            for other in others:
                if other.agent != access.agent and not is_ordered(other.clock, access.clock):
                    self.races_found = True
                    record.races.append((record.kernel_count - 1, buffer, other, access))
                    return

    def store_access(self, buffer: Any, access: MemoryAccess) -> None:
        """Replaces the previous access of the same agent to the same part."""
        parts = self.accesses.setdefault((buffer, access.writes), {})
        parts[access.bounds] = [*(other for other in parts.get(access.bounds, ()) if other.agent != access.agent), access]


def is_ordered(one: Any, other: Any) -> bool:
    less, more = bool((one <= other).all()), bool((one >= other).all())
    return less != more


def do_overlap(one: Bounds, other: Bounds) -> bool:
    """Whether two parts overlap. If only one of them gives bounds for a dimension, the other covers that dimension completely."""
    return all(first < their_last and their_first < last for (first, last), (their_first, their_last) in zip(one, other))


class Semaphore(shared_memory.Semaphore):  # type: ignore[misc]
    """Cores take turns, so no other core can raise the semaphore during a wait."""

    def wait(self, value: Any, global_core_id: int, **options: Any) -> None:
        while self.count_by_core[global_core_id] < value:
            if not self.tasks[global_core_id]:
                text = (
                    "a wait never ends: transfers and signals add less to its semaphore than it waits for, so start a copy for every wait"
                )
                raise CandidateError("timeout", text)
            self.tasks[global_core_id].pop()()
        super().wait(value, global_core_id, **options)


def next_transfer_agent(memory: Any) -> int:
    """The vector-clock slot of a new transfer: assigned in turn instead of randomly, so that outcomes are reproducible."""
    record.transfer_count += 1
    return int(memory.num_cores + record.transfer_count % (memory.vector_clock_size - memory.num_cores))


def run_cores_in_turn(function: Any, cores: int, token: Any, *arguments: Any, **_: Any) -> Any:
    """Runs the cores one after another. Vector clocks order the accesses, not time, so races between cores are still detected."""
    return lax.fori_loop(0, cores, lambda core, carried: function(jnp.int32(core), carried, *arguments), token)


def draw_grid_order(grid: tuple[Any, ...], settings: Any, seed: int | None) -> tuple[Any, ...]:
    """A random order of the steps of every parallel dimension; an empty array for the other dimensions."""
    random = np.random.default_rng(seed)
    parallel = mode._get_parallel_dim_semantics(settings, len(grid))
    return tuple(
        jnp.asarray(random.permutation(int(size)).astype(np.int32)) if is_parallel else jnp.array((), jnp.int32)
        for size, is_parallel in zip(grid, parallel)
    )


def run_callback(*arguments: Any, callback: Any, **_: Any) -> list[np.ndarray]:
    before, record.last_callback = record.last_callback, (callback, arguments)
    try:
        results = [np.asarray(result) for result in callback(*arguments)]
    except (CandidateError, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        record.failure = record.failure or error
        raise
    if "output_name" in getattr(callback.callback_func, "keywords", {}):
        invalidate_buffer(before[1])
    return results


def invalidate_buffer(arguments: tuple[Any, ...]) -> None:
    """Marks the content of a buffer as uninitialised after it was read to be written to an output."""
    _, device, core, space, buffer = (int(argument) for argument in arguments[:5])
    memory = mode._shared_memory
    content: Any = memory.mem[mode.TPU_MEMORY_SPACE_NAMES[space], buffer, device, core] if memory else None
    if content is not None:
        content.content[...] = utils.get_uninitialized_value(content.dtype, "nan")


@mode.fail_on_exception  # type: ignore[untyped-decorator]
def check_transfers_finished(token: Any, device: Any) -> Any:
    """Raises CandidateError unless, at the end of a kernel, every transfer is complete and every semaphore is zero."""
    memory: Any = mode._shared_memory
    for semaphore in memory.sem.values():
        if any(semaphore.tasks):
            raise CandidateError(
                "race",
                f"a transfer is still running at the end of the kernel{transfer_start_line(semaphore)}: call `.wait()` on every copy",
            )
        if semaphore.count_by_core.any():
            raise CandidateError(
                "race", "a semaphore is not zero at the end of the kernel: wait for everything that transfers and signals added to it"
            )
    return token


def transfer_start_line(semaphore: Any) -> str:
    """The line that started the unfinished transfer."""
    transfer = next(task for tasks in semaphore.tasks for task in tasks).__self__
    return source_line(transfer.source_info)


def source_line(info: Any) -> str:
    """The candidate's source line, as ` (kernel.py:12)`; empty if it is unknown."""
    if info is None:
        return ""
    frame = source_info_util.user_frame(info.traceback) if info.traceback else None
    if frame:
        return f" ({frame.file_name.rpartition('/')[2]}:{frame.start_line})"
    location = str(info.name_stack).rpartition("/")[2]
    return f" ({location})" if ":" in location else ""


PATCHES: tuple[tuple[Any, str, Any], ...] = (
    (mode, "thread_map", run_cores_in_turn),
    (mode, "_get_randomized_grid_coordinates", draw_grid_order),
    (mode, "_validate", check_transfers_finished),
    (mode, "RaceDetectionState", RaceDetector),
    (shared_memory, "Semaphore", Semaphore),
    (shared_memory.SharedMemory, "get_random_virtual_device_id", next_transfer_agent),
    (callbacks, "io_callback_impl", run_callback),
)


@contextlib.contextmanager
def patched_interpret_mode() -> Iterator[RunRecord]:
    """A context in which the patches are active; yields a new record and restores the original functions at the end."""
    global record
    record = RunRecord()
    originals = [getattr(module, name) for module, name, _ in PATCHES]
    for module, name, replacement in PATCHES:
        setattr(module, name, replacement)
    try:
        yield record
    finally:
        for (module, name, _), original in zip(PATCHES, originals, strict=True):
            setattr(module, name, original)
        reset: Any = mode.reset_tpu_interpret_mode_state
        reset()
        dispatch.runtime_tokens.clear()  # a failed run leaves a token that makes every later run fail
