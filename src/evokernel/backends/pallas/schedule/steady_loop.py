"""Skips iterations of a loop in its steady state, in which every iteration takes the same way and the same time.

One iteration is executed with registers that count, such as a grid index, as linear functions of the number of further iterations. Every
decision then limits how many iterations follow the same way. If registers and transfers are in the same relative state at the end, those
iterations are added up instead of executed.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple, Protocol

from evokernel.backends.pallas.schedule.machine import INDEX, WORD_MASK, Machine, ScalarMemory, SyncFlag, UnknownWord

SIGN_BIT = 1 << 31
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


class NotSteadyError(ArithmeticError):
    """The loop does something that is not a linear function of the iteration."""


class IterationLimit:
    """How many further iterations take the same decisions."""

    def __init__(self) -> None:
        self.iterations = math.inf

    def keep_within(self, value: int, step: int, low: float, high: float) -> None:
        """Lower the limit so that a linear function stays within these values, which its first value does."""
        room = (high - value) if step > 0 else (value - low)
        if not math.isinf(room):
            self.iterations = min(self.iterations, int(room) // abs(step))


class LinearWord:
    """A word that changes by a constant in every iteration: `value` now, `value + step` in the next one. `step` is not zero."""

    __slots__ = ("limit", "step", "value")

    def __init__(self, value: int, step: int, limit: IterationLimit) -> None:
        self.value, self.step, self.limit = value, step, limit

    def make(self, value: int, step: int) -> Any:
        return LinearWord(value, step, self.limit) if step else value

    def __add__(self, other: Any) -> Any:
        if isinstance(other, UnknownWord):
            return NotImplemented
        if isinstance(other, LinearWord):
            return self.make(self.value + other.value, self.step + other.step)
        return self.make(self.value + read_word(other), self.step)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self.make(-self.value, -self.step)

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, UnknownWord):
            return NotImplemented
        return self + (-other if isinstance(other, LinearWord) else -read_word(other))

    def __rsub__(self, other: Any) -> Any:
        if isinstance(other, UnknownWord):
            return NotImplemented
        return -self + other

    def __mul__(self, other: Any) -> Any:
        factor = read_word(other)
        return self.make(self.value * factor, self.step * factor)

    __rmul__ = __mul__

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << read_word(other))

    def __rshift__(self, other: Any) -> Any:
        size = 1 << read_word(other)
        if self.step % size == 0:
            return self.make(self.value // size, self.step // size)
        start = self.value - self.value % size
        self.limit.keep_within(self.value, self.step, start, start + size - 1)
        return self.value // size

    def __and__(self, other: Any) -> Any:
        mask = read_word(other)
        lowest = mask & -mask
        if mask < 0 or mask & (mask + lowest):  # more than one run of bits
            raise NotSteadyError(f"mask {mask:#x}")
        return self.modulo(mask + lowest) - self.modulo(lowest) if mask else 0

    __rand__ = __and__

    def modulo(self, size: int) -> Any:
        """The lowest bits: linear until they wrap around."""
        if size == 1:
            return 0
        value, step = self.value % size, (self.step + size // 2) % size - size // 2
        if step:
            self.limit.keep_within(value, step, 0, size - 1)
        return self.make(value, step)

    def __xor__(self, other: Any) -> Any:
        if read_word(other) != SIGN_BIT or not 0 <= self.value <= WORD_MASK:
            raise NotSteadyError
        start = self.value & SIGN_BIT
        self.limit.keep_within(self.value, self.step, start, start + SIGN_BIT - 1)
        return self.make(self.value ^ SIGN_BIT, self.step)

    __rxor__ = __xor__

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        divisor = read_word(other)
        start = self.value - self.value % divisor
        self.limit.keep_within(self.value, self.step, start, start + divisor - 1)
        return self.value // divisor, self.make(self.value - start, self.step)

    def is_below(self, other: Any, margin: int) -> bool:
        """Whether this word is less than another plus a margin, now and in the iterations up to the limit."""
        difference = self - other - margin
        if not isinstance(difference, LinearWord):
            return bool(difference < 0)
        is_below = difference.value < 0
        low, high = (-math.inf, -1) if is_below else (0, math.inf)
        self.limit.keep_within(difference.value, difference.step, low, high)
        return is_below

    def __lt__(self, other: Any) -> bool:
        return self.is_below(other, 0)

    def __le__(self, other: Any) -> bool:
        return self.is_below(other, 1)

    def __gt__(self, other: Any) -> bool:
        return not self.is_below(other, 1)

    def __ge__(self, other: Any) -> bool:
        return not self.is_below(other, 0)

    def __eq__(self, other: object) -> bool:
        difference = self - other
        if not isinstance(difference, LinearWord):
            return bool(difference == 0)
        quotient, rest = divmod(-difference.value, difference.step)
        if not rest and quotient >= 0:  # equal in iteration `quotient`, counted from now
            self.limit.iterations = min(self.limit.iterations, max(0, quotient - 1))
        return difference.value == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        raise NotSteadyError

    def refuse(self, other: Any = None) -> Any:
        """Raise: the result would not be linear."""
        raise NotSteadyError

    __index__ = __int__ = refuse
    __or__ = __ror__ = __rlshift__ = __rrshift__ = __rdivmod__ = refuse


class SteadyMemory(ScalarMemory):
    """Scalar memory that can be read at linear addresses of an array whose contents are not known."""

    def __init__(self, memory: ScalarMemory) -> None:
        super().__init__(memory.machine)
        self.update(memory)
        self.tables = memory.tables

    def __getitem__(self, address: Any) -> Any:
        if not isinstance(address, LinearWord):
            return super().__getitem__(address)
        ranges = [range(start, start + length) for start, length in self.tables.items() if start <= address.value < start + length]
        if len(ranges) != 1 or any(word in ranges[0] for word in self) or self.is_overlapped(ranges[0]):
            raise NotSteadyError
        address.limit.keep_within(address.value, address.step, ranges[0][0], ranges[0][-1])
        return UnknownWord(address - ranges[0][0], self.machine, INDEX)

    def is_overlapped(self, words: range) -> bool:
        """Whether two arrays have words in this range."""
        return sum(start < words.stop and words.start < start + length for start, length in self.tables.items()) > 1


def read_word(word: Any) -> int:
    """The word if it is known and constant."""
    if isinstance(word, LinearWord | UnknownWord):
        raise NotSteadyError
    return int(word)


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
        exits = [runner.step() for _ in period.exits]
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


def find_step(old: Any, new: Any) -> int:
    """The difference of two words, or of the values assumed for two unknown words."""
    if old is new:
        return 0
    if word_kind(old) != word_kind(new):
        raise NotSteadyError
    return int(plain_value(new)) - int(plain_value(old))


def word_kind(word: Any) -> str:
    """The kind of an unknown word; empty for others."""
    return word.kind if isinstance(word, UnknownWord) else ""


def plain_value(word: Any) -> Any:
    """The value of a word, also if it is only assumed."""
    return word.value if isinstance(word, UnknownWord) else word


def replace_value(word: Any, value: Any) -> Any:
    """A word of the same kind with another value."""
    return UnknownWord(value, word.machine, word.kind) if isinstance(word, UnknownWord) else value


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
