"""What the scalar core acts on while a schedule is executed: its memory, synchronisation flags, transfers, and the clock."""

from __future__ import annotations

import operator
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from evokernel.backends.pallas.chips import Chip

WORD = 0xFFFFFFFF
LOCAL_SPEED = 4
"""Transfers within the chip, in multiples of HBM's bandwidth."""
SMEM_WORDS = 1 << 16
ARGUMENTS = 1 << 36
"""Arguments of a program are at this address and above."""
WORD_OF_DATA, INDEX, DIFFERENCE, CHANGED = "data", "index", "difference", "changed"
"""Any word; one read from an array in scalar memory; what two of those have between them; whether that is anything."""
MAX_PENDING = 200_000


class OutOfBounds(ArithmeticError):
    """The program keeps more transfers in flight than any machine could."""


class Unknown:
    """A word that depends on data nobody has here. It may be computed with; when it decides something, the machine is told.

    One kind of decision is foreseen: whether a block differs from the one before, when its index was read from memory. Indices are
    taken to be all different, so a transfer is never spared. That needs to know where words come from: see `kind`.
    """

    __slots__ = ("kind", "machine", "value")

    def __init__(self, value: int, machine: Machine, kind: str = WORD_OF_DATA) -> None:
        self.value, self.machine, self.kind = value, machine, kind

    def __bool__(self) -> bool:
        if self.kind == CHANGED:
            self.machine.indices_compared += 1
        else:
            self.machine.decided_by_data += 1
        return bool(self.value)

    def __index__(self) -> int:
        self.machine.decided_by_data += 1
        return int(self.value)

    __int__ = __index__

    def __hash__(self) -> int:
        return hash(int(self))


def kind_of(operation: str, left: Any, right: Any) -> str:
    """Of the result: what two indices have between them, and whether that is nothing, stays recognisable."""
    kinds = {word.kind for word in (left, right) if isinstance(word, Unknown)}
    both = isinstance(left, Unknown) and isinstance(right, Unknown)
    if len(kinds) > 1:
        return WORD_OF_DATA
    (kind,) = kinds
    if operation in ("eq", "ne"):
        compares = both if kind == INDEX else kind == DIFFERENCE and (right if isinstance(left, Unknown) else left) == 0
        return CHANGED if compares else WORD_OF_DATA
    if operation in ("lt", "le", "gt", "ge"):
        return WORD_OF_DATA
    if both and kind == INDEX:
        return DIFFERENCE if operation in ("sub", "xor") else INDEX
    return kind


def lifted(operation: str, swapped: bool = False) -> Callable[[Unknown, Any], Unknown]:
    """The operation on unknown words; what comes out is unknown as well."""
    calculate = getattr(operator, f"__{operation}__")

    def calculated(self: Unknown, other: Any) -> Unknown:
        left, right = (other, self) if swapped else (self, other)
        value = calculate(*(word.value if isinstance(word, Unknown) else word for word in (left, right)))
        return Unknown(int(value), self.machine, kind_of(operation, left, right))

    return calculated


for name in ("add", "sub", "mul", "and", "or", "xor", "lshift", "rshift"):
    setattr(Unknown, f"__{name}__", lifted(name))
    setattr(Unknown, f"__r{name}__", lifted(name, swapped=True))
for name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Unknown, f"__{name}__", lifted(name))


class Smem(dict[Any, Any]):
    """Scalar memory by address. What nobody wrote is unknown; arguments that are there from the beginning are taken for indices."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine

    def __missing__(self, address: Any) -> Unknown:
        if not isinstance(address, Unknown) and address >= ARGUMENTS:
            return Unknown(address & (SMEM_WORDS - 1), self.machine, INDEX)
        return self.machine.unknown()


class Flag:
    """A synchronisation flag: its count, and the transfers that will add to it, in order of completion."""

    __slots__ = ("count", "pending")

    def __init__(self) -> None:
        self.count = 0
        self.pending: deque[tuple[float, int]] = deque()


class Machine:
    """State of one core. Time is in cycles; transfers share one channel to HBM, first come, first served."""

    def __init__(self, chip: Chip, background: float = 0.0, unknown_value: int = 0, core: int = 0) -> None:
        self.chip, self.core = chip, core
        self.speed = chip.hbm_bytes_per_cycle
        self.unknown_value = unknown_value
        self.t = 0.0
        self.registers: list[Any] = [0] * 256
        self.predicates: list[Any] = [0] * 256
        self.smem = Smem(self)
        self.flags: dict[Any, Flag] = {}
        self.divided: deque[Any] = deque()
        self.free_at = 0.0
        self.background, self.background_at = background, 0.0
        self.bytes_read = self.bytes_written = self.bytes_local = 0
        self.transfers = 0
        self.waited = 0.0
        self.lone_waits = 0
        self.decided_by_data = 0
        self.indices_compared = 0
        self.left_over = 0

    def unknown(self) -> Unknown:
        return Unknown(self.unknown_value, self)

    def flag(self, number: Any) -> Flag:
        number = int(number)
        found = self.flags.get(number)
        if found is None:
            found = self.flags[number] = Flag()
        return found

    @property
    def unwaited(self) -> int:
        """Transfers nobody has waited for, and flags on which less was waited for than arrived."""
        return self.left_over + sum(len(flag.pending) + bool(flag.count) for flag in self.flags.values())

    def delay(self, cycles: Any) -> None:
        self.t += min(int(cycles) & WORD, 1 << 20)

    def divide(self, dividend: Any, divisor: Any, quotient: bool, remainder: bool) -> None:
        """Results are fetched later, in order."""
        if isinstance(dividend, Unknown) or isinstance(divisor, Unknown):
            results: tuple[Any, Any] = (self.unknown(), self.unknown())
        else:
            results = divmod(dividend & WORD, divisor & WORD) if divisor & WORD else (0, 0)
        if quotient:
            self.divided.append(results[0])
        if remainder:
            self.divided.append(results[1])

    def fetch(self) -> Any:
        return self.divided.popleft() if self.divided else self.unknown()

    def transfer(self, source: str, target: str, granules: Any, flag: Any, smem: Any) -> None:
        """Issues one; it is done after its turn on the channel and the latency of its direction."""
        granules = int(granules) & WORD
        size = granules * self.chip.granule_bytes
        self.transfers += 1
        if target == "smem" and not isinstance(smem, Unknown) and smem:
            for word in range(min(size // 4, SMEM_WORDS)):  # counting up, so that no block looks like the one before
                self.smem[smem + word] = Unknown(word, self, INDEX)
        if "hbm" in (source, target):
            twice = 2 if source == target else 1
            begin = max(self.t, self.free_at)
            self.free_at = begin + self.occupied(begin, size * twice)
            if target == "hbm":
                self.bytes_written += size
                done = self.free_at + self.chip.write_latency
            if source == "hbm":
                self.bytes_read += size
                done = self.free_at + self.chip.read_latency
        else:
            self.bytes_local += size
            done = self.t + size / (LOCAL_SPEED * self.speed) + self.chip.write_latency / 2
        pending = self.flag(flag).pending
        pending.append((done, granules))
        if len(pending) > MAX_PENDING:
            raise OutOfBounds

    def occupied(self, begin: float, size: int) -> float:
        """How long the channel is taken; a prefetch in the background has half of it while it lasts."""
        if not self.background:
            return size / self.speed
        self.drain(begin)
        if size <= self.background:
            taken = 2 * size / self.speed
            self.background -= size
        else:
            taken = (size + self.background) / self.speed
            self.background = 0.0
        self.background_at = begin + taken
        return taken

    def drain(self, until: float) -> None:
        """The background transfer has the channel alone until then."""
        if self.background and until > self.background_at:
            self.background = max(0.0, self.background - (until - self.background_at) * self.speed)
        self.background_at = max(self.background_at, until)

    def wait(self, number: Any, count: Any) -> None:
        """Until the flag has reached the count. A count that no transfer will ever bring about is noted and taken as reached."""
        flag, count = self.flag(number), int(count)
        while signed(flag.count) < count:
            if not flag.pending:
                self.lone_waits += 1
                flag.count = count
                break
            done, granules = flag.pending.popleft()
            flag.count += granules
            if done > self.t:
                self.waited += done - self.t
                self.t = done

    def add(self, number: Any, count: Any) -> None:
        flag = self.flag(number)
        flag.count = (flag.count + int(count)) & WORD

    def reset(self, number: Any) -> None:
        flag = self.flag(number)
        self.left_over += bool(flag.count)
        flag.count = 0


def pick(condition: Any, yes: Any, no: Any) -> Any:
    """Chooses without deciding: by a condition that is not known, an unknown word."""
    if not isinstance(condition, Unknown) or condition.kind == CHANGED:
        return yes if condition else no
    chosen = yes if condition.value else no
    return Unknown(chosen.value if isinstance(chosen, Unknown) else int(chosen), condition.machine)


def pick_read(condition: Any, read: Callable[[], Any], no: Any) -> Any:
    """The same for a word that is read from memory only if it may be chosen: its address may be left over from something else."""
    if isinstance(condition, Unknown) and condition.kind != CHANGED:
        return pick(condition, read(), no)
    return read() if condition else no


def signed(word: int) -> int:
    """A 32-bit word in two's complement."""
    return ((word & WORD) ^ 0x80000000) - 0x80000000


def as_float(word: Any) -> float:
    return float(struct.unpack("<f", struct.pack("<I", int(word) & WORD))[0])


def float_word(value: float) -> int:
    """The word that holds it; infinity where it is too large."""
    try:
        return int(struct.unpack("<I", struct.pack("<f", value))[0])
    except OverflowError:
        return 0x7F800000 if value > 0 else 0xFF800000


def with_floats(calculate: Callable[[float, float], float | bool], compares: bool = False) -> Callable[[Any, Any], Any]:
    """An operation on words that hold floats."""

    def calculated(left: Any, right: Any) -> Any:
        for word in (left, right):
            if isinstance(word, Unknown):
                guess = word.machine.unknown_value
                return Unknown(int(guess != 0) if compares else guess, word.machine)
        result = calculate(as_float(left), as_float(right))
        return result if compares else float_word(float(result))

    return calculated
