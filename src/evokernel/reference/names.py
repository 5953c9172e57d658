"""Argument names that are valid and distinct in C, C++ and Python."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

RESERVED_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class co_await co_return co_yield compl concept const
    const_cast consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit export extern
    false float for friend goto if inline int int8_t int16_t int32_t int64_t kernel long main mutable namespace new noexcept not not_eq
    nullptr operator or or_eq out private protected public register reinterpret_cast requires restrict return short signed size_t sizeof
    static static_assert static_cast std struct switch template this thread_local throw true try typedef typeid typename uint8_t uint16_t
    union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
RESERVED = frozenset(RESERVED_WORDS.split())


def to_identifier(text: str) -> str:
    """Convert text to an identifier valid in all three languages: other characters become underscores, keywords get a trailing one."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII) or "value"
    word = f"x{word}" if word[0].isdigit() else word
    clash = word in RESERVED or keyword.iskeyword(word) or re.fullmatch(r"out\d+", word)
    return f"{word}_" if clash else word


class NameAllocator:
    """Allocates unique identifiers; `<name>_shape` is reserved with each, because kernels receive a shape per tensor."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def allocate(self, text: str) -> str:
        """Return an identifier for this text, with a number appended if it is already in use."""
        word = to_identifier(text)
        unique, n = word, 1
        while {unique, f"{unique}_shape"} & self._taken:
            n += 1
            unique = f"{word}_{n}"
        self._taken |= {unique, f"{unique}_shape"}
        return unique


def output_names(count: int) -> Iterable[str]:
    """Return `out`, or `out0, out1, ...` for several outputs."""
    return ["out"] if count == 1 else [f"out{i}" for i in range(count)]
