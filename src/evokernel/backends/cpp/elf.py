"""Reads which symbols a shared object needs and offers, so that no further tool has to be installed."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

DYNSYM = 11
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")


class Symbols(NamedTuple):
    """Names as the dynamic linker sees them."""

    needed: tuple[str, ...]
    offered: tuple[str, ...]


def symbols(path: Path) -> Symbols | None:
    """None when the file is no 64-bit little-endian ELF object, as on macOS."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return None
    start, entry_size, count = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    sections = [SECTION.unpack_from(data, start + i * entry_size) for i in range(count)]
    needed: list[str] = []
    offered: list[str] = []
    for section in sections:
        kind, offset, size, link = section[1], section[4], section[5], section[6]
        if kind != DYNSYM:
            continue
        names = sections[link][4]
        for at in range(offset + SYMBOL.size, offset + size, SYMBOL.size):
            name_at, _, _, home, _, _ = SYMBOL.unpack_from(data, at)
            end = data.index(b"\0", names + name_at)
            name = data[names + name_at : end].decode(errors="replace")
            if name:
                (offered if home else needed).append(name)
    return Symbols(tuple(needed), tuple(offered))
