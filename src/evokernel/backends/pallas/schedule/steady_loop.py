"""Skips iterations of a loop in its steady state, in which every iteration takes the same way and the same time.

One iteration is executed with registers that count, such as a grid index, as linear functions of the number of further iterations. Every
decision then limits how many iterations follow the same way. If registers and transfers are in the same relative state at the end, those
iterations are added up instead of executed.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple, Protocol

from evokernel.backends.pallas.schedule.linear_words import (
    IterationLimit,
    LinearWord,
    NotSteadyError,
    SteadyMemory,
    find_step,
    plain_value,
    replace_value,
    word_kind,
)
from evokernel.backends.pallas.schedule.machine import Machine, SyncFlag

MAX_LAPS = 16
"""Iterations that may form one period: double buffering has two."""
MAX_LAP_BLOCKS = 128
MAX_STATE_SIZE = 4096
"""Words of scalar memory and transfers in flight; copies of larger states would take longer than the iterations."""
CYCLE_TOLERANCE = 1e-3
COUNTERS = (
    "clock",
    "bytes_read",
    "bytes_written",
    "bytes_local",
    "transfers",
    "wait_cycles",
    "unmatched_waits",
    "data_decisions",
    "index_comparisons",
    "reset_nonzero",
)
"""Numbers of the machine that grow by the same amount in every period."""


class MachineState(NamedTuple):
    """A copy of everything that a machine changes."""

    words: tuple[dict[Any, Any], ...]
    """By place: registers, predicates, scalar memory, and results of divisions."""
    tables: dict[int, int]
    flags: dict[Any, tuple[int, tuple[tuple[float, int], ...]]]
    channel_free_at: float
    counters: dict[str, float]

    @classmethod
    def copy(cls, machine: Machine) -> MachineState:
        """Copy the state of a machine."""
        flags = {number: (flag.count, tuple(flag.pending)) for number, flag in machine.flags.items()}
        counters = {name: getattr(machine, name) for name in COUNTERS}
        words = tuple(dict(one) if isinstance(one, dict) else dict(enumerate(one)) for one in machine_words(machine))
        return cls(words, machine.smem.tables, flags, machine.channel_free_at, counters)

    def restore(self, machine: Machine) -> None:
        """Put the machine back into this state; its lists stay the same objects."""
        registers, predicates, smem, division_results = self.words
        machine.registers[:], machine.predicates[:] = registers.values(), predicates.values()
        machine.smem.clear()
        machine.smem.update(smem)
        machine.smem.tables = self.tables
        machine.division_results = deque(division_results.values())
        machine.flags.clear()
        for number, (count, pending) in self.flags.items():
            machine.flags[number] = flag = SyncFlag()
            flag.count, flag.pending = count, deque(pending)
        machine.channel_free_at = self.channel_free_at
        for name, number in self.counters.items():
            setattr(machine, name, number)

    @property
    def relative_times(self) -> list[float]:
        """When the channel is free and when transfers complete, counted from now."""
        clock = self.counters["clock"]
        times = [self.channel_free_at, *(at for _, pending in self.flags.values() for at, _ in pending)]
        return [max(0.0, at - clock) for at in times]

    @property
    def flag_counts(self) -> dict[Any, tuple[int, tuple[int, ...]]]:
        """The counts of all flags and of their pending transfers."""
        return {number: (count, tuple(granules for _, granules in pending)) for number, (count, pending) in self.flags.items()}

    def is_same_phase(self, other: MachineState) -> bool:
        """Whether both states have the same transfers in flight, at the same distance from completion."""
        return (self.flag_counts, self.tables) == (other.flag_counts, other.tables) and all(
            abs(one - two) <= CYCLE_TOLERANCE for one, two in zip(self.relative_times, other.relative_times, strict=True)
        )


class BlockRunner(Protocol):
    """Executes the blocks of a program one by one."""

    machine: Machine
    block: Any
    """The block to execute next; None after the end of the program."""
    hits: list[int]
    """How often each exit was taken."""

    def step(self) -> int:
        """Execute one block, and return the exit that it took."""


class Period(NamedTuple):
    """Iterations after which a loop has the same transfers in flight: the states around them, and the exits that they took."""

    before: MachineState
    after: MachineState
    exits: list[int]


def skip_steady_iterations(runner: BlockRunner) -> int:
    """Execute some iterations of the current loop, and skip those that follow in the same way. Return how many blocks were skipped."""
    machine, hits = runner.machine, runner.hits
    state_size = len(machine.smem) + sum(len(flag.pending) for flag in machine.flags.values())
    if machine.background_bytes or state_size > MAX_STATE_SIZE:
        return 0
    period = find_period(runner)
    if period is None:
        return 0
    limit, old_block, old_hits, memory = IterationLimit(), runner.block, list(hits), machine.smem
    machine.smem = SteadyMemory(memory)
    try:
        set_linear_words(machine, period, limit)
        exits = [runner.step() for _ in period.exits if runner.block is not None]  # the program may end in this iteration
        end = MachineState.copy(machine)
        if exits != period.exits or not end.is_same_phase(period.after):
            raise NotSteadyError
        check_linear_words(period, end)
        iterations = 0 if math.isinf(limit.iterations) else int(limit.iterations)
        advance(machine, period.after, end, iterations)
    except NotSteadyError:
        period.after.restore(machine)
        runner.block, hits[:] = old_block, old_hits
        return 0
    finally:
        memory.clear()
        memory.update(machine.smem)
        memory.tables, machine.smem = machine.smem.tables, memory
    hits[:] = [now + (now - old) * iterations for now, old in zip(hits, old_hits)]
    return iterations * len(exits)


def find_period(runner: BlockRunner) -> Period | None:
    """Execute iterations until the last ones took the same way as those before them, with the same transfers in flight."""
    anchor, states = runner.block, [MachineState.copy(runner.machine)]
    laps: list[list[int]] = []
    for _ in range(2 * MAX_LAPS):
        lap = run_lap(runner, anchor)
        if lap is None:
            return None
        laps.append(lap)
        states.append(MachineState.copy(runner.machine))
        for count in range(1, min(MAX_LAPS, len(laps) // 2) + 1):
            first, second, third = (states[-1 - number * count] for number in (2, 1, 0))
            if laps[-count:] == laps[-2 * count : -count] and third.is_same_phase(second) and have_equal_steps(first, second, third):
                return Period(states[-1 - count], states[-1], [one for lap in laps[-count:] for one in lap])
    return None


def have_equal_steps(first: MachineState, second: MachineState, third: MachineState) -> bool:
    """Whether every word changed by as much from the second state to the third as before that."""
    try:
        return all(
            old.keys() == middle.keys() == new.keys()
            and all(
                old[place] is word is middle[place] or find_step(old[place], middle[place]) == find_step(middle[place], word)
                for place, word in new.items()
            )
            for old, middle, new in zip(first.words, second.words, third.words, strict=True)
        )
    except NotSteadyError:
        return False


def run_lap(runner: BlockRunner, anchor: object) -> list[int] | None:
    """Execute blocks until the anchor is next, and return their exits; None if it takes too long or the program ends."""
    exits: list[int] = []
    while len(exits) < MAX_LAP_BLOCKS:
        exits.append(runner.step())
        if runner.block is None:
            return None
        if runner.block is anchor:
            return exits
    return None


def set_linear_words(machine: Machine, period: Period, limit: IterationLimit) -> None:
    """Turn the words that changed in the last period into linear functions."""
    for old_words, new_words, words in zip(period.before.words, period.after.words, machine_words(machine), strict=True):
        if old_words.keys() != new_words.keys():
            raise NotSteadyError
        for place, new in new_words.items():
            if step := find_step(old_words[place], new):
                words[place] = replace_value(new, LinearWord(plain_value(new), step, limit))


def check_linear_words(period: Period, end: MachineState) -> None:
    """Raise NotSteadyError unless every word changed as in the period before, and will again."""
    for old_words, new_words, last_words in zip(period.before.words, period.after.words, end.words, strict=True):
        if new_words.keys() != last_words.keys():
            raise NotSteadyError
        for place, new in new_words.items():
            step, last = find_step(old_words[place], new), last_words[place]
            linear = plain_value(last)
            is_linear = isinstance(linear, LinearWord)
            if is_linear != bool(step) or (is_linear and (linear.value, linear.step) != (plain_value(new) + step, step)):
                raise NotSteadyError
            if word_kind(last) != word_kind(new):
                raise NotSteadyError
            if not is_linear and find_step(new, last):
                raise NotSteadyError


def advance(machine: Machine, start: MachineState, end: MachineState, iterations: int) -> None:
    """Put the machine into the state after further iterations that equal the one from start to end."""
    for words in machine_words(machine):
        for place, word in words.items() if isinstance(words, dict) else enumerate(words):
            linear = plain_value(word)
            if isinstance(linear, LinearWord):
                words[place] = replace_value(word, linear.value + iterations * linear.step)
    for name, number in end.counters.items():
        setattr(machine, name, number + iterations * (number - start.counters[name]))
    shift = machine.clock - end.counters["clock"]
    machine.channel_free_at += shift
    for flag in machine.flags.values():
        flag.pending = deque((at + shift, granules) for at, granules in flag.pending)


def machine_words(machine: Machine) -> tuple[Any, ...]:
    """Where a machine keeps words, in the order of `MachineState.words`."""
    return machine.registers, machine.predicates, machine.smem, machine.division_results
