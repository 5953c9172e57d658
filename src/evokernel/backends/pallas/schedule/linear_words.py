"""Words that change by a constant in every iteration of a loop, and what limits how long they do."""

from __future__ import annotations

import math
from typing import Any

from evokernel.backends.pallas.schedule.machine import INDEX, WORD_MASK, ScalarMemory, UnknownWord

SIGN_BIT = 1 << 31


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
