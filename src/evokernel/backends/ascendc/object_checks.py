"""What a compiled kernel may not be: a core has no variables that outlive a launch, and shares none with the host."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.backends.native.elf import SYMBOL, WRITABLE, Object, read
from evokernel.backends.native.object_checks import readable
from evokernel.core.errors import CandidateError

SYMTAB, UNDEFINED, RESERVED = 2, 0, 0xFF00
VARIABLES, LOCAL = (1, 6), 0
CONSTANTS = (".data.rel.ro", ".tbss.ro")
"""Sections that are only written while the library is loaded."""
OURS = re.compile(r"4twin|^DW\.ref\.|^[$.]|^_ZStL8__ioinit$")
"""The twin's, what the assembler names, and what <iostream> brings: a variable of the candidate has a name of its own."""


class Symbol(NamedTuple):
    """One entry of an object's symbol table."""

    name: str
    kind: int
    binding: int
    home: int
    """Its section; 0 where another object has to define it."""


def check_kernel(kernel: Path, others: Sequence[Path]) -> None:
    """Refuses variables of the kernel's own, and whatever it takes from the host side."""
    built = read(kernel)
    if built is None:
        return
    table = list(symbols(built))
    if kept := [symbol.name for symbol in table if is_variable(built, symbol)]:
        named = ", ".join(f"`{variable(name)}`" for name in kept[:3])
        raise CandidateError(
            "unsupported", f"the kernel keeps {named} outside its functions: a core has no such memory; make it const, or a member"
        )
    wanted = {symbol.name for symbol in table if symbol.home == UNDEFINED}
    for other in others:
        found = read(other)
        shared = (
            [symbol.name for symbol in symbols(found) if symbol.home and symbol.binding != LOCAL and symbol.name in wanted] if found else []
        )
        if shared:
            raise CandidateError(
                "forbidden", f"the kernel uses `{variable(shared[0])}` of the host side, which no core can reach: pass it as tiling data"
            )


def symbols(built: Object) -> Iterator[Symbol]:
    """All of an object's own table."""
    for section in (section for section in built.sections if section.kind == SYMTAB):
        names = built.sections[section.link].offset
        for at in range(section.offset + SYMBOL.size, section.offset + section.size, SYMBOL.size):
            name_at, info, _, home, _, _ = SYMBOL.unpack_from(built.data, at)
            if name := built.text(names + name_at):
                yield Symbol(name, info & 15, info >> 4, home)


def is_variable(built: Object, symbol: Symbol) -> bool:
    """Whether it can be written after the library was loaded, and is not the twin's."""
    if symbol.kind not in VARIABLES or symbol.home == UNDEFINED or symbol.home >= RESERVED or OURS.search(symbol.name):
        return False
    section = built.sections[symbol.home]
    (names,) = struct.unpack_from("<H", built.data, 62)
    return bool(section.flags & WRITABLE) and not built.text(built.sections[names].offset + section.name).startswith(CONSTANTS)


def variable(symbol: str) -> str:
    """A variable's own name, which a mangled symbol ends with."""
    plain = re.sub(r"E?(?:_\d+)?$", "", symbol)
    for match in re.finditer(r"\d+", plain):
        if len(plain) - match.end() == int(match[0]):
            return plain[match.end() :]
    return readable(symbol)
