"""Pallas' TPU interpret mode with some of its parts replaced while a program is interpreted.

The parts are names inside the pinned version of JAX; what is put in their place means the same and is quicker, or finds more:
cores take turns in one program instead of threads that compile one each; the order of parallel grid steps is drawn before the program is
compiled; callbacks get numpy arrays as they come; accesses that can no longer race are forgotten; a wait for what never comes ends; what an
output's buffer held is gone once it is written out; transfers nobody waited for are found.
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
TRANSFERS = 100
"""From here on the number of an access' agent is that of a transfer; below it is a device's."""


@dataclasses.dataclass
class Access:
    """Who touches what: `agent` is a core's or a transfer's number."""

    agent: tuple[int, int]
    clock: Any
    part: tuple[Any, ...]
    source: Any
    writes: bool

    @cached_property
    def bounds(self) -> Bounds:
        """First index and the one behind the last, per dimension; strides are not looked at."""
        return tuple((int(i.start), int(i.stop)) if isinstance(i, slice) else (int(i), int(i) + 1) for i in self.part)

    @property
    def by_transfer(self) -> bool:
        return self.agent[0] >= TRANSFERS


@dataclasses.dataclass
class Record:
    """What came up during one run."""

    kernels: int = 0
    """How many kernels have begun."""
    races: list[tuple[int, tuple[Any, ...], Access, Access]] = dataclasses.field(default_factory=list)
    """Kernel, buffer, and the two accesses without an order between them."""
    last: tuple[Any, tuple[Any, ...]] = (None, ())
    """The function called back last, and its arguments as they came."""
    transfers: int = 0
    failure: Exception | None = None
    """What a callback raised; on its way through XLA an exception becomes text."""


record = Record()


class Races(race_detection_state.RaceDetectionState):  # type: ignore[misc]
    """Keeps, of the accesses of one agent to the same part, only the last: whoever races with an earlier one races with that one, too.

    Parts are compared before clocks: most accesses of a kernel that copies row by row do not meet.
    """

    def __init__(self, num_cores: int) -> None:
        super().__init__(num_cores)
        record.kernels += 1
        self.kept: dict[tuple[Any, bool], dict[Bounds, list[Access]]] = {}

    def check_read(self, device: int, core: int, clock: Any, buffer: Any, part: Any, source_info: Any = None) -> None:
        access = Access((device, core), clock, part, source_info, writes=False)
        self.compare(buffer, access, writes=True)
        self.keep(buffer, access)

    def check_write(self, device: int, core: int, clock: Any, buffer: Any, part: Any, source_info: Any = None) -> None:
        access = Access((device, core), clock, part, source_info, writes=True)
        self.compare(buffer, access, writes=True)
        self.compare(buffer, access, writes=False)
        self.keep(buffer, access)

    def compare(self, buffer: Any, access: Access, writes: bool) -> None:
        own = access.bounds
        if any(first < 0 for first, _ in own):
            raise IndexError("Out-of-bounds access at a negative index")
        for bounds, others in self.kept.get((buffer, writes), {}).items():
            if not overlap(own, bounds):
                continue
            for other in others:
                if other.agent != access.agent and not ordered(other.clock, access.clock):
                    self.races_found = True
                    record.races.append((record.kernels - 1, buffer, other, access))
                    return

    def keep(self, buffer: Any, access: Access) -> None:
        """In place of the one before it of the same agent to the same part, which came first for everybody."""
        parts = self.kept.setdefault((buffer, access.writes), {})
        parts[access.bounds] = [*(other for other in parts.get(access.bounds, ()) if other.agent != access.agent), access]


def ordered(one: Any, other: Any) -> bool:
    less, more = bool((one <= other).all()), bool((one >= other).all())
    return less != more


def overlap(one: Bounds, other: Bounds) -> bool:
    """Dimensions that only one of them names, the other takes whole."""
    return all(first < their_last and their_first < last for (first, last), (their_first, their_last) in zip(one, other))


class Semaphore(shared_memory.Semaphore):  # type: ignore[misc]
    """Cores take turns, so nobody else can raise it while one waits."""

    def wait(self, value: Any, global_core_id: int, **options: Any) -> None:
        while self.count_by_core[global_core_id] < value:
            if not self.tasks[global_core_id]:
                text = "a wait that never ends: more is waited for on a semaphore than transfers and signals bring"
                raise CandidateError("timeout", text)
            self.tasks[global_core_id].pop()()
        super().wait(value, global_core_id, **options)


def next_agent(memory: Any) -> int:
    """A place in the clocks for a new transfer: in turn instead of by chance, so that verdicts repeat."""
    record.transfers += 1
    return int(memory.num_cores + record.transfers % (memory.vector_clock_size - memory.num_cores))


def take_turns(function: Any, cores: int, token: Any, *arguments: Any, **_: Any) -> Any:
    """What orders accesses are the clocks, not the time, so that races between cores are found all the same."""
    return lax.fori_loop(0, cores, lambda core, held: function(jnp.int32(core), held, *arguments), token)


def drawn(grid: tuple[Any, ...], settings: Any, seed: int | None) -> tuple[Any, ...]:
    """The order of the steps of every parallel dimension; nothing for the others."""
    random = np.random.default_rng(seed)
    parallel = mode._get_parallel_dim_semantics(settings, len(grid))
    return tuple(
        jnp.asarray(random.permutation(int(size)).astype(np.int32)) if free else jnp.array((), jnp.int32)
        for size, free in zip(grid, parallel)
    )


def call_back(*arguments: Any, callback: Any, **_: Any) -> list[np.ndarray]:
    before, record.last = record.last, (callback, arguments)
    try:
        results = [np.asarray(result) for result in callback(*arguments)]
    except (CandidateError, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        record.failure = record.failure or error
        raise
    if "output_name" in getattr(callback.callback_func, "keywords", {}):
        forget(before[1])
    return results


def forget(arguments: tuple[Any, ...]) -> None:
    """The buffer that has just been read, to be written to an output, now holds nothing."""
    _, device, core, space, buffer = (int(argument) for argument in arguments[:5])
    memory = mode._shared_memory
    content: Any = memory.mem[mode.TPU_MEMORY_SPACE_NAMES[space], buffer, device, core] if memory else None
    if content is not None:
        content.content[...] = utils.get_uninitialized_value(content.dtype, "nan")


@mode.fail_on_exception  # type: ignore[untyped-decorator]
def settle(token: Any, device: Any) -> Any:
    """At the end of a kernel: every transfer done, every semaphore back at zero."""
    memory: Any = mode._shared_memory
    for semaphore in memory.sem.values():
        if any(semaphore.tasks):
            raise CandidateError("race", f"a transfer is still under way at the end of the kernel{started(semaphore)}: wait for every one")
        if semaphore.count_by_core.any():
            raise CandidateError(
                "race", "a semaphore is not back at zero at the end of the kernel: everything it counted has to be waited for"
            )
    return token


def started(semaphore: Any) -> str:
    """Where the transfer left over was started."""
    transfer = next(task for tasks in semaphore.tasks for task in tasks).__self__
    return line(transfer.source_info)


def line(info: Any) -> str:
    """Where in the candidate something comes from, as ` (kernel.py:12)`."""
    if info is None:
        return ""
    frame = source_info_util.user_frame(info.traceback) if info.traceback else None
    if frame:
        return f" ({frame.file_name.rpartition('/')[2]}:{frame.start_line})"
    place = str(info.name_stack).rpartition("/")[2]
    return f" ({place})" if ":" in place else ""


REPLACED: tuple[tuple[Any, str, Any], ...] = (
    (mode, "thread_map", take_turns),
    (mode, "_get_randomized_grid_coordinates", drawn),
    (mode, "_validate", settle),
    (mode, "RaceDetectionState", Races),
    (shared_memory, "Semaphore", Semaphore),
    (shared_memory.SharedMemory, "get_random_virtual_device_id", next_agent),
    (callbacks, "io_callback_impl", call_back),
)


@contextlib.contextmanager
def adapted() -> Iterator[Record]:
    """The replaced parts in place, and a new record; nothing stays behind."""
    global record
    record = Record()
    kept = [getattr(module, name) for module, name, _ in REPLACED]
    for module, name, ours in REPLACED:
        setattr(module, name, ours)
    try:
        yield record
    finally:
        for (module, name, _), theirs in zip(REPLACED, kept, strict=True):
            setattr(module, name, theirs)
        reset: Any = mode.reset_tpu_interpret_mode_state
        reset()
        dispatch.runtime_tokens.clear()  # a failed run leaves one that makes every later run fail
