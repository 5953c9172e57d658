"""Checks a compiled kernel: it may have no global variables and no symbols of the host code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from evokernel.backends.native.elf import SYMTAB, WRITABLE, ElfObject, Symbol, read_elf
from evokernel.backends.native.object_checks import demangled_name
from evokernel.core.errors import CandidateError

UNDEFINED, RESERVED = 0, 0xFF00
VARIABLE_KINDS, LOCAL = (1, 6), 0
GM_SECTION = "gm_variables"
"""Section of the `__gm__` variables at file scope, which are in global memory."""
CONSTANT_SECTIONS = (".data.rel.ro", ".tbss.ro", GM_SECTION)
"""Sections that are written only while the library is loaded, or reset before every launch."""
IGNORED_SYMBOLS = re.compile(r"9simulator|^DW\.ref\.|^[$.]|^_ZStL8__ioinit$")
"""Symbols of the simulator, of the assembler and of <iostream>, which are not variables of the candidate."""


def check_kernel_object(kernel: Path, others: Sequence[Path]) -> None:
    """Refuse global variables of the kernel, and symbols that it takes from host code."""
    kernel_elf = read_elf(kernel)
    if kernel_elf is None:
        return
    table = list(kernel_elf.read_symbol_table(SYMTAB))
    if variables := [symbol.name for symbol in table if is_writable_variable(kernel_elf, symbol)]:
        names = ", ".join(f"`{variable_name(name)}`" for name in variables[:3])
        raise CandidateError(
            "unsupported",
            f"the kernel has the global variable {names}, but a core has no such memory: make it const, "
            "a member of the kernel class, or a `__gm__` variable",
        )
    undefined_names = {symbol.name for symbol in table if symbol.section == UNDEFINED}
    for other in others:
        other_elf = read_elf(other)
        host_symbols = (
            [
                symbol.name
                for symbol in other_elf.read_symbol_table(SYMTAB)
                if symbol.section and symbol.binding != LOCAL and symbol.name in undefined_names
            ]
            if other_elf
            else []
        )
        if host_symbols:
            raise CandidateError(
                "forbidden",
                f"the kernel uses `{variable_name(host_symbols[0])}` of the host code, which a core cannot access: pass it as tiling data",
            )


def is_writable_variable(elf: ElfObject, symbol: Symbol) -> bool:
    """Whether a symbol is a variable of the candidate that can be written after loading."""
    if (
        symbol.kind not in VARIABLE_KINDS
        or symbol.section == UNDEFINED
        or symbol.section >= RESERVED
        or IGNORED_SYMBOLS.search(symbol.name)
    ):
        return False
    section = elf.section_at(symbol.section)
    return bool(section.flags & WRITABLE) and not elf.section_name(section).startswith(CONSTANT_SECTIONS)


def variable_name(symbol: str) -> str:
    """The plain name of a variable, which is the end of its mangled symbol."""
    plain = re.sub(r"E?(?:_\d+)?$", "", symbol)
    for match in re.finditer(r"\d+", plain):
        if len(plain) - match.end() == int(match[0]):
            return plain[match.end() :]
    return demangled_name(symbol)
