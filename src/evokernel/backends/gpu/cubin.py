"""Reads device code of nvcc and ptxas: its kernels, their parameters and resource use."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from evokernel.backends.native.elf import MAGIC, NOBITS, ElfObject, malformed_object

CUDA = 190
"""ELF machine number of device code."""
INFO, TEXT = ".nv.info.", ".text."
SIZED = 4
"""The attribute format that is followed by a payload of the given size."""
PARAMETER, REGISTERS, FRAME = 0x17, 0x2F, 0x11
SHARED, RESERVED = ".nv.shared.", ".nv.shared.reserved."
"""Sections of a kernel's shared memory, and of the part that the system reserves."""
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


class CubinSection(NamedTuple):
    """Name, info and data of a section of a cubin."""

    name: str
    info: int
    data: bytes


def read_kernels(container: bytes) -> dict[str, KernelInfo]:
    """Reads all kernels of a fat binary or cubin, by name. Raises CandidateError if it is malformed."""
    kernels: dict[str, KernelInfo] = {}
    offset = container.find(MAGIC)
    while offset >= 0:
        image = ElfObject(container[offset:])
        if image.machine == CUDA:
            kernels |= {function.name: function for function in read_cubin_kernels(image)}
        offset = container.find(MAGIC, offset + max(image.end, len(MAGIC)))  # data inside the image may look like another one
    return kernels


def uses_shared_memory(container: bytes) -> bool:
    """Whether a kernel of a fat binary or cubin has shared memory; True for an image without readable device code."""
    has_code, offset = False, container.find(MAGIC)
    while offset >= 0:
        image = ElfObject(container[offset:])
        if image.machine == CUDA:
            has_code = True
            names = [image.section_name(section) for section in image.sections]
            if any(name.startswith(SHARED) and not name.startswith(RESERVED) for name in names):
                return True
        offset = container.find(MAGIC, offset + max(image.end, len(MAGIC)))
    return not has_code


def read_cubin_kernels(image: ElfObject) -> Iterator[KernelInfo]:
    """Yields the kernels of one cubin."""
    all_sections = list(read_sections(image))
    resources: dict[int, dict[int, int]] = {}
    for section in all_sections:
        if section.name == ".nv.info":
            for kind, payload in read_attributes(section.data):
                if kind in (REGISTERS, FRAME):
                    symbol, value = unpack_attribute("<II", payload)
                    resources.setdefault(symbol, {})[kind] = value
    symbols = {section.name.removeprefix(TEXT): section.info & 0xFFFFFF for section in all_sections if section.name.startswith(TEXT)}
    for section in all_sections:
        if section.name.startswith(INFO):
            name = section.name.removeprefix(INFO)
            payloads = [payload for kind, payload in read_attributes(section.data) if kind == PARAMETER]
            parameter_rows = sorted(unpack_attribute("<IHHI", payload)[1:] for payload in payloads)
            values = resources.get(symbols.get(name, -1), {})
            parameters = tuple(KernelParameter(offset, flags >> SIZE_AT) for _, offset, flags in parameter_rows)
            yield KernelInfo(name, parameters, values.get(REGISTERS, 0), values.get(FRAME, 0))


def read_sections(image: ElfObject) -> Iterator[CubinSection]:
    """Yields the sections of a cubin with their data."""
    for section in image.sections:
        data = b"" if section.kind == NOBITS else image.data[section.offset : section.offset + section.size]
        yield CubinSection(image.section_name(section), section.info, data)


def read_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields number and payload of each attribute."""
    position = 0
    while position + 4 <= len(data):
        form, kind, value = struct.unpack_from("<BBH", data, position)
        position += 4
        if form == SIZED:
            yield kind, data[position : position + value]
            position += value


def unpack_attribute(layout: str, payload: bytes) -> tuple[int, ...]:
    """Reads the numbers of an attribute."""
    try:
        return struct.unpack(layout, payload)
    except struct.error as error:
        raise malformed_object("an attribute of a kernel has an unknown layout") from error
