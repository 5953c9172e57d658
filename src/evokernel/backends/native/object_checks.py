"""What a built object may not be, whatever its text promised."""

from __future__ import annotations

import re
from collections.abc import Collection

from evokernel.backends.native.elf import Object
from evokernel.core.errors import CandidateError

STATIC_BYTES = 256 << 20


def refuse_foreign(built: Object, allowed: re.Pattern[str], may_use: str, offered: Collection[str] = ()) -> None:
    """Refuses what is called from outside, save the symbols that are allowed and those offered by a library of ours."""
    foreign = [name for name in built.symbols.needed if name not in offered and not allowed.fullmatch(name)]
    if undefined := [name for name in foreign if name.startswith("_Z") and not name.startswith(("_ZNSt", "_ZNKSt", "_ZSt"))]:
        raise CandidateError("symbol", f"declared but never defined: {', '.join(map(readable, undefined[:5]))}")
    if foreign:
        raise CandidateError("forbidden", f"calls {', '.join(foreign[:5])}: a kernel may use {may_use}, nothing of the system")


def refuse_dishonest(built: Object, allowed: re.Pattern[str], may_use: str) -> None:
    """The same, and what an honest kernel's object does not hold."""
    refuse_foreign(built, allowed, may_use)
    if built.static_bytes > STATIC_BYTES:
        raise CandidateError("memory", f"static storage of more than {STATIC_BYTES >> 20} MiB: take scratch from the heap, within the call")
    if odd := list(built.oddities()):
        raise CandidateError("forbidden", "the built object is not that of a kernel: " + "; ".join(odd))


def readable(symbol: str) -> str:
    """The function's own name inside a mangled symbol."""
    match = re.match(r"_ZN?K?(\d+)", symbol)
    return symbol[match.end() : match.end() + int(match[1])] if match else symbol
