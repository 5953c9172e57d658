"""Argument names that are valid and distinct in C, C++ and Python."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class co_await co_return co_yield compl concept const
    const_cast consteval constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit export extern
    false float for friend goto if inline int int8_t int16_t int32_t int64_t kernel long main mutable namespace new noexcept not not_eq
    nullptr operator or or_eq out private protected public register reinterpret_cast requires restrict return short signed size_t sizeof
    static static_assert static_cast std struct switch template this thread_local throw true try typedef typeid typename uint8_t uint16_t
    union unsigned using virtual void volatile wchar_t while xor xor_eq
"""
RESERVED = frozenset(WORDS.split())


def identifier(text: str) -> str:
    """The nearest word that both languages accept: dots and dashes become underscores, keywords get one at the end."""
    word = re.sub(r"\W", "_", text, flags=re.ASCII) or "value"
    word = f"x{word}" if word[0].isdigit() else word
    clash = word in RESERVED or keyword.iskeyword(word) or re.fullmatch(r"out\d+", word)
    return f"{word}_" if clash else word


class Names:
    """Hands out identifiers, each once; `<name>_shape` is taken along with it, because kernels get one per tensor."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, text: str) -> str:
        """An identifier for this text, with a number at its end when the word is taken."""
        word = identifier(text)
        unique, n = word, 1
        while {unique, f"{unique}_shape"} & self._taken:
            n += 1
            unique = f"{word}_{n}"
        self._taken |= {unique, f"{unique}_shape"}
        return unique


def output_names(count: int) -> Iterable[str]:
    """`out`, or `out0, out1, ...` when there are several."""
    return ["out"] if count == 1 else [f"out{i}" for i in range(count)]
