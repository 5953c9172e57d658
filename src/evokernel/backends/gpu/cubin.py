"""Reads device code as nvcc and ptxas leave it: which kernels it holds, and what each takes and uses."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

MAGIC, CUDA = b"\x7fELF", 190
"""How device code begins inside of a container, and its machine."""
SECTION = struct.Struct("<IIQQQQIIQQ")
INFO, TEXT = ".nv.info.", ".text."
SIZED = 4
"""The form of an attribute that is followed by so many bytes."""
PARAMETER, REGISTERS, FRAME = 0x17, 0x2F, 0x11
SIZE_AT = 18
"""Bits of a parameter's last word below its size."""


class Parameter(NamedTuple):
    """Where a kernel finds one of its arguments."""

    offset: int
    size: int


class Function(NamedTuple):
    """A kernel in device code."""

    name: str
    parameters: tuple[Parameter, ...]
    registers: int
    """Per thread."""
    stack: int
    """Bytes per thread in local memory."""


class Section(NamedTuple):
    """What is asked of an entry of the section table."""

    name: str
    info: int
    data: bytes


def functions(container: bytes) -> dict[str, Function]:
    """All kernels of a fat binary or a cubin, by their names in it."""
    found: dict[str, Function] = {}
    place = -1
    while (place := container.find(MAGIC, place + 1)) >= 0:
        if struct.unpack_from("<H", container, place + 18)[0] == CUDA:
            found |= {function.name: function for function in of_image(container[place:])}
    return found


def of_image(image: bytes) -> Iterator[Function]:
    """The kernels of one cubin."""
    listed = list(sections(image))
    used: dict[int, dict[int, int]] = {}
    for section in listed:
        if section.name == ".nv.info":
            for kind, payload in attributes(section.data):
                if kind in (REGISTERS, FRAME):
                    symbol, value = struct.unpack("<II", payload)
                    used.setdefault(symbol, {})[kind] = value
    symbols = {section.name.removeprefix(TEXT): section.info & 0xFFFFFF for section in listed if section.name.startswith(TEXT)}
    for section in listed:
        if section.name.startswith(INFO):
            name = section.name.removeprefix(INFO)
            given = [payload for kind, payload in attributes(section.data) if kind == PARAMETER]
            ordered = sorted(struct.unpack("<IHHI", payload)[1:] for payload in given)
            values = used.get(symbols.get(name, -1), {})
            parameters = tuple(Parameter(offset, flags >> SIZE_AT) for _, offset, flags in ordered)
            yield Function(name, parameters, values.get(REGISTERS, 0), values.get(FRAME, 0))


def sections(image: bytes) -> Iterator[Section]:
    """Those that hold bytes."""
    start, count, names_at = struct.unpack_from("<Q", image, 40)[0], *struct.unpack_from("<HH", image, 60)
    rows = [SECTION.unpack_from(image, start + SECTION.size * number) for number in range(count)]
    names = image[rows[names_at][4] : rows[names_at][4] + rows[names_at][5]]
    for row in rows:
        name = names[row[0] : names.index(b"\0", row[0])].decode()
        yield Section(name, row[7], b"" if row[1] == 8 else image[row[4] : row[4] + row[5]])


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and payload of each."""
    place = 0
    while place + 4 <= len(data):
        form, kind, value = struct.unpack_from("<BBH", data, place)
        place += 4
        if form == SIZED:
            yield kind, data[place : place + value]
            place += value
