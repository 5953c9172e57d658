"""The state of the simulated core: registers, scalar memory, synchronisation flags, transfers and the clock."""

from __future__ import annotations

import operator
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from evokernel.backends.pallas.chips import Chip

WORD_MASK = 0xFFFFFFFF
LOCAL_SPEED = 4
"""Speed of transfers within the chip, as a multiple of the HBM bandwidth."""
SMEM_WORDS = 1 << 16
ARGUMENTS = 1 << 36
"""Arguments of a program have this address or a higher one."""
DATA_WORD, INDEX, DIFFERENCE, CHANGED = "data", "index", "difference", "changed"
"""Kinds of unknown words: any word; an index read from an array in scalar memory; the difference of two indices; whether they differ."""
MAX_PENDING = 200_000


class TooManyTransfers(ArithmeticError):
    """The program has more transfers in flight than any chip supports."""


class UnknownWord:
    """A word that depends on data that the simulation does not have. Arithmetic on it works; the machine counts decisions that use it.

    One kind of decision is supported: whether a block differs from the previous one, if its index was read from memory. The simulation
    assumes that all indices differ, so no transfer is skipped. `kind` records where a word comes from, to recognise these decisions.
    """

    __slots__ = ("kind", "machine", "value")

    def __init__(self, value: int, machine: Machine, kind: str = DATA_WORD) -> None:
        self.value, self.machine, self.kind = value, machine, kind

    def __bool__(self) -> bool:
        if self.kind == CHANGED:
            self.machine.index_comparisons += 1
        else:
            self.machine.data_decisions += 1
        return bool(self.value)

    def __index__(self) -> int:
        self.machine.data_decisions += 1
        return int(self.value)

    __int__ = __index__

    def __hash__(self) -> int:
        return hash(int(self))


def result_kind(operation: str, left: Any, right: Any) -> str:
    """The kind of an operation's result: differences of two indices, and their comparison with zero, keep their kinds."""
    kinds = {word.kind for word in (left, right) if isinstance(word, UnknownWord)}
    both = isinstance(left, UnknownWord) and isinstance(right, UnknownWord)
    if len(kinds) > 1:
        return DATA_WORD
    (kind,) = kinds
    if operation in ("eq", "ne"):
        compares = both if kind == INDEX else kind == DIFFERENCE and (right if isinstance(left, UnknownWord) else left) == 0
        return CHANGED if compares else DATA_WORD
    if operation in ("lt", "le", "gt", "ge"):
        return DATA_WORD
    if both and kind == INDEX:
        return DIFFERENCE if operation in ("sub", "xor") else INDEX
    return kind


def lift_operation(operation: str, swapped: bool = False) -> Callable[[UnknownWord, Any], UnknownWord]:
    """The operation on unknown words; its result is unknown as well."""
    calculate = getattr(operator, f"__{operation}__")

    def apply(self: UnknownWord, other: Any) -> UnknownWord:
        left, right = (other, self) if swapped else (self, other)
        value = calculate(*(word.value if isinstance(word, UnknownWord) else word for word in (left, right)))
        return UnknownWord(int(value) if isinstance(value, bool) else value, self.machine, result_kind(operation, left, right))

    return apply


for name in ("add", "sub", "mul", "and", "or", "xor", "lshift", "rshift"):
    setattr(UnknownWord, f"__{name}__", lift_operation(name))
    setattr(UnknownWord, f"__r{name}__", lift_operation(name, swapped=True))
for name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(UnknownWord, f"__{name}__", lift_operation(name))


class ScalarMemory(dict[Any, Any]):
    """Scalar memory by address. Words that the program never wrote are unknown; arguments of the program count as indices."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.tables: dict[int, int] = {}
        """The arrays that transfers wrote: their length by address."""

    def __missing__(self, address: Any) -> UnknownWord:
        if isinstance(address, UnknownWord):
            return self.machine.make_unknown()
        for start, length in self.tables.items():
            if start <= address < start + length:  # increasing words, so that no block equals the previous one
                return UnknownWord(address - start, self.machine, INDEX)
        if address >= ARGUMENTS:
            return UnknownWord(address & (SMEM_WORDS - 1), self.machine, INDEX)
        return self.machine.make_unknown()

    def add_table(self, start: int, length: int) -> None:
        """Overwrite words with an array whose contents are not known."""
        for address in [address for address in self if start <= address < start + length]:
            del self[address]
        self.tables = {start: length, **{at: n for at, n in self.tables.items() if at != start}}


class SyncFlag:
    """A synchronisation flag: its count, and the pending transfers that will add to it, in order of completion."""

    __slots__ = ("count", "pending")

    def __init__(self) -> None:
        self.count = 0
        self.pending: deque[tuple[float, int]] = deque()


class Machine:
    """State of one core. Time is in cycles; transfers share one channel to HBM in the order of issue."""

    def __init__(self, chip: Chip, background_bytes: float = 0.0, unknown_value: int = 0, core: int = 0) -> None:
        self.chip, self.core = chip, core
        self.hbm_bytes_per_cycle = chip.hbm_bytes_per_cycle
        self.unknown_value = unknown_value
        self.clock = 0.0
        self.registers: list[Any] = [0] * 256
        self.predicates: list[Any] = [0] * 256
        self.smem = ScalarMemory(self)
        self.flags: dict[Any, SyncFlag] = {}
        self.division_results: deque[Any] = deque()
        self.channel_free_at = 0.0
        self.background_bytes, self.background_updated_at = background_bytes, 0.0
        self.bytes_read = self.bytes_written = self.bytes_local = 0
        self.transfers = 0
        self.wait_cycles = 0.0
        self.unmatched_waits = 0
        self.data_decisions = 0
        self.index_comparisons = 0
        self.reset_nonzero = 0

    def make_unknown(self) -> UnknownWord:
        return UnknownWord(self.unknown_value, self)

    def get_flag(self, number: Any) -> SyncFlag:
        number = int(number)
        flag = self.flags.get(number)
        if flag is None:
            flag = self.flags[number] = SyncFlag()
        return flag

    @property
    def unwaited_transfers(self) -> int:
        """Transfers without a wait, plus flags whose waits cover less than arrived."""
        return self.reset_nonzero + sum(len(flag.pending) + bool(flag.count) for flag in self.flags.values())

    def delay(self, cycles: Any) -> None:
        self.clock += min(int(cycles) & WORD_MASK, 1 << 20)

    def divide(self, dividend: Any, divisor: Any, quotient: bool, remainder: bool) -> None:
        """Queues the results of a division; `pop_division_result` returns them in order."""
        if isinstance(dividend, UnknownWord) or isinstance(divisor, UnknownWord):
            results: tuple[Any, Any] = (self.make_unknown(), self.make_unknown())
        else:
            results = divmod(dividend & WORD_MASK, divisor & WORD_MASK) if divisor & WORD_MASK else (0, 0)
        if quotient:
            self.division_results.append(results[0])
        if remainder:
            self.division_results.append(results[1])

    def pop_division_result(self) -> Any:
        return self.division_results.popleft() if self.division_results else self.make_unknown()

    def transfer(self, source: str, target: str, granules: Any, flag: Any, smem: Any) -> None:
        """Issues a transfer. It completes after its turn on the channel plus the latency of its direction."""
        granules = int(granules) & WORD_MASK
        size = granules * self.chip.granule_bytes
        self.transfers += 1
        if target == "smem" and not isinstance(smem, UnknownWord) and smem:
            self.smem.add_table(smem, min(size // 4, SMEM_WORDS))
        if "hbm" in (source, target):
            twice = 2 if source == target else 1
            begin = max(self.clock, self.channel_free_at)
            self.channel_free_at = begin + self.channel_cycles(begin, size * twice)
            if target == "hbm":
                self.bytes_written += size
                completes_at = self.channel_free_at + self.chip.write_latency
            if source == "hbm":
                self.bytes_read += size
                completes_at = self.channel_free_at + self.chip.read_latency
        else:
            self.bytes_local += size
            completes_at = self.clock + size / (LOCAL_SPEED * self.hbm_bytes_per_cycle) + self.chip.write_latency / 2
        pending = self.get_flag(flag).pending
        pending.append((completes_at, granules))
        if len(pending) > MAX_PENDING:
            raise TooManyTransfers

    def channel_cycles(self, begin: float, size: int) -> float:
        """Cycles for which a transfer occupies the channel; a background prefetch takes half of the bandwidth while it runs."""
        if not self.background_bytes:
            return size / self.hbm_bytes_per_cycle
        self.drain_background(begin)
        if size <= self.background_bytes:
            cycles = 2 * size / self.hbm_bytes_per_cycle
            self.background_bytes -= size
        else:
            cycles = (size + self.background_bytes) / self.hbm_bytes_per_cycle
            self.background_bytes = 0.0
        self.background_updated_at = begin + cycles
        return cycles

    def drain_background(self, until: float) -> None:
        """Advances the background transfer, which has the channel alone until the given time."""
        if self.background_bytes and until > self.background_updated_at:
            self.background_bytes = max(0.0, self.background_bytes - (until - self.background_updated_at) * self.hbm_bytes_per_cycle)
        self.background_updated_at = max(self.background_updated_at, until)

    def wait(self, number: Any, count: Any) -> None:
        """Waits until the flag reaches the count. If no pending transfer can reach it, counts an unmatched wait and continues."""
        flag, count = self.get_flag(number), int(count)
        while to_signed(flag.count) < count:
            if not flag.pending:
                self.unmatched_waits += 1
                flag.count = count
                break
            completes_at, granules = flag.pending.popleft()
            flag.count += granules
            if completes_at > self.clock:
                self.wait_cycles += completes_at - self.clock
                self.clock = completes_at

    def add_to_flag(self, number: Any, count: Any) -> None:
        flag = self.get_flag(number)
        flag.count = (flag.count + int(count)) & WORD_MASK

    def reset_flag(self, number: Any) -> None:
        flag = self.get_flag(number)
        self.reset_nonzero += bool(flag.count)
        flag.count = 0


def pick(condition: Any, yes: Any, no: Any) -> Any:
    """Selects a word without counting a decision: if the condition is unknown, the result is an unknown word."""
    if not isinstance(condition, UnknownWord) or condition.kind == CHANGED:
        return yes if condition else no
    word = yes if condition.value else no
    return UnknownWord(word.value if isinstance(word, UnknownWord) else int(word), condition.machine)


def pick_read(condition: Any, read: Callable[[], Any], no: Any) -> Any:
    """Like `pick`, for a word that is read from memory only if it may be selected: otherwise its address may be stale."""
    if isinstance(condition, UnknownWord) and condition.kind != CHANGED:
        return pick(condition, read(), no)
    return read() if condition else no


def to_signed(word: int) -> int:
    """A 32-bit word in two's complement."""
    return ((word & WORD_MASK) ^ 0x80000000) - 0x80000000


def word_to_float(word: Any) -> float:
    return float(struct.unpack("<f", struct.pack("<I", int(word) & WORD_MASK))[0])


def float_to_word(value: float) -> int:
    """The word that represents a float; infinity if it is too large."""
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def float_operation(calculate: Callable[[float, float], float | bool], compares: bool = False) -> Callable[[Any, Any], Any]:
    """An operation on words that represent floats."""

    def apply(left: Any, right: Any) -> Any:
        for word in (left, right):
            if isinstance(word, UnknownWord):
                guess = word.machine.unknown_value
                return UnknownWord(int(guess != 0) if compares else guess, word.machine)
        result = calculate(word_to_float(left), word_to_float(right))
        return result if compares else float_to_word(float(result))

    return apply
