"""Reads device code of nvcc and ptxas: its kernels, their parameters and resource use."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

MAGIC, CUDA = b"\x7fELF", 190
"""Magic bytes of device code inside a container, and its ELF machine number."""
SECTION = struct.Struct("<IIQQQQIIQQ")
INFO, TEXT = ".nv.info.", ".text."
SIZED = 4
"""The attribute format that is followed by a payload of the given size."""
PARAMETER, REGISTERS, FRAME = 0x17, 0x2F, 0x11
SIZE_AT = 18
"""Position of the size in the last word of a parameter attribute."""


class KernelParameter(NamedTuple):
    """Offset and size of a kernel parameter."""

    offset: int
    size: int


class KernelInfo(NamedTuple):
    """Parameters and resource use of a kernel in device code."""

    name: str
    parameters: tuple[KernelParameter, ...]
    registers: int
    """Registers per thread."""
    stack: int
    """Bytes per thread in local memory."""


class Section(NamedTuple):
    """Name, info and data of an ELF section."""

    name: str
    info: int
    data: bytes


def read_kernels(container: bytes) -> dict[str, KernelInfo]:
    """Reads all kernels of a fat binary or cubin, by name."""
    kernels: dict[str, KernelInfo] = {}
    offset = -1
    while (offset := container.find(MAGIC, offset + 1)) >= 0:
        if struct.unpack_from("<H", container, offset + 18)[0] == CUDA:
            kernels |= {function.name: function for function in read_cubin_kernels(container[offset:])}
    return kernels


def read_cubin_kernels(image: bytes) -> Iterator[KernelInfo]:
    """Yields the kernels of one cubin."""
    all_sections = list(read_sections(image))
    resources: dict[int, dict[int, int]] = {}
    for section in all_sections:
        if section.name == ".nv.info":
            for kind, payload in read_attributes(section.data):
                if kind in (REGISTERS, FRAME):
                    symbol, value = struct.unpack("<II", payload)
                    resources.setdefault(symbol, {})[kind] = value
    symbols = {section.name.removeprefix(TEXT): section.info & 0xFFFFFF for section in all_sections if section.name.startswith(TEXT)}
    for section in all_sections:
        if section.name.startswith(INFO):
            name = section.name.removeprefix(INFO)
            payloads = [payload for kind, payload in read_attributes(section.data) if kind == PARAMETER]
            parameter_rows = sorted(struct.unpack("<IHHI", payload)[1:] for payload in payloads)
            values = resources.get(symbols.get(name, -1), {})
            parameters = tuple(KernelParameter(offset, flags >> SIZE_AT) for _, offset, flags in parameter_rows)
            yield KernelInfo(name, parameters, values.get(REGISTERS, 0), values.get(FRAME, 0))


def read_sections(image: bytes) -> Iterator[Section]:
    """Yields the sections of a cubin with their data."""
    start, count, names_at = struct.unpack_from("<Q", image, 40)[0], *struct.unpack_from("<HH", image, 60)
    rows = [SECTION.unpack_from(image, start + SECTION.size * number) for number in range(count)]
    names = image[rows[names_at][4] : rows[names_at][4] + rows[names_at][5]]
    for row in rows:
        name = names[row[0] : names.index(b"\0", row[0])].decode()
        yield Section(name, row[7], b"" if row[1] == 8 else image[row[4] : row[4] + row[5]])


def read_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields number and payload of each attribute."""
    position = 0
    while position + 4 <= len(data):
        form, kind, value = struct.unpack_from("<BBH", data, position)
        position += 4
        if form == SIZED:
            yield kind, data[position : position + value]
            position += value
