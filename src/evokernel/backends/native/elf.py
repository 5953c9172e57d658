"""Reads what a shared object needs, offers and does while it is loaded, so that no further tool has to be installed."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

DYNSYM, NOBITS = 11, 8
WRITABLE, OCCUPIES, EXECUTABLE = 1, 2, 4
LOAD, DYNAMIC, STACK = 1, 2, 0x6474E551
EXECUTE, WRITE = 1, 2
NEEDED, PLT_SIZE, NAMES, RELA, RELA_SIZE, TEXT_RELOCATIONS, FLAGS, PLT = 1, 2, 5, 7, 8, 22, 30, 23
INITIALISERS, FINALISERS, PREINITIALISERS = 27, 28, 33
HEADER = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
POINTER = 8
INDIRECT = {62: 37, 183: 1032, 243: 58}
"""By machine: the relocation whose address a function of the object itself is asked for while it is loaded."""
AARCH64 = 183
SYSTEM = ((0xFFE0001C, 0xD4000000), (0xFFFFFFE0, 0xD51B4400), (0xFFFFFF00, 0xD53BE000))
"""On aarch64, bits to look at and what they say: calls of the system (svc, hvc, smc), writing the mode of floats, reading the clock."""
LIBRARIES = re.compile(r"lib(stdc\+\+|c\+\+|c\+\+abi|m|mvec|gcc_s|gomp|omp|iomp5|atomic|c|unwind)\.so[.\d]*|ld-linux[-\w]*\.so[.\d]*")
DATA_BYTES = 1 << 20


class Symbols(NamedTuple):
    """Names as the dynamic linker sees them."""

    needed: tuple[str, ...]
    offered: tuple[str, ...]


class Section(NamedTuple):
    """One entry of the section table."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


class Segment(NamedTuple):
    """One entry of the program header table."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    in_file: int
    in_memory: int
    align: int


class Object:
    """A 64-bit little-endian ELF object."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        (self.machine,) = struct.unpack_from("<H", data, 18)
        at, section_at = struct.unpack_from("<QQ", data, 32)
        size, count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
        self.segments = [Segment(*HEADER.unpack_from(data, at + i * size)) for i in range(count)]
        self.sections = [Section(*SECTION.unpack_from(data, section_at + i * section_size)) for i in range(section_count)]

    def text(self, at: int) -> str:
        """The name that begins here."""
        return self.data[at : self.data.index(b"\0", at)].decode(errors="replace")

    def place(self, address: int) -> int:
        """Where in the file something lies that is loaded at an address."""
        for segment in self.segments:
            if segment.kind == LOAD and segment.address <= address < segment.address + segment.in_file:
                return address - segment.address + segment.offset
        return 0

    @cached_property
    def entries(self) -> list[tuple[int, int]]:
        """What the dynamic linker is told, tag and value."""
        found = next(((s.offset, s.in_file) for s in self.segments if s.kind == DYNAMIC), (0, 0))
        return [struct.unpack_from("<QQ", self.data, at) for at in range(found[0], sum(found), 2 * POINTER)]

    def entry(self, tag: int) -> int:
        """The value of a tag; 0 when there is none."""
        return next((value for key, value in self.entries if key == tag), 0)

    @cached_property
    def symbols(self) -> Symbols:
        """All names of the dynamic symbol table."""
        needed: list[str] = []
        offered: list[str] = []
        for section in (section for section in self.sections if section.kind == DYNSYM):
            names = self.sections[section.link].offset
            for at in range(section.offset + SYMBOL.size, section.offset + section.size, SYMBOL.size):
                name_at, _, _, home, _, _ = SYMBOL.unpack_from(self.data, at)
                if name := self.text(names + name_at):
                    (offered if home else needed).append(name)
        return Symbols(tuple(needed), tuple(offered))

    def relocations(self) -> Iterator[int]:
        """The kinds of everything the loader has to fill in."""
        for tag, size in ((RELA, RELA_SIZE), (PLT, PLT_SIZE)):
            start = self.place(self.entry(tag))
            for at in range(start, start + self.entry(size) if start else 0, RELOCATION.size):
                yield RELOCATION.unpack_from(self.data, at)[1] & 0xFFFFFFFF

    def libraries(self) -> list[str]:
        """The libraries it is linked with."""
        names = self.place(self.entry(NAMES))
        return [self.text(names + value) for tag, value in self.entries if tag == NEEDED]

    def oddities(self) -> Iterator[str]:
        """What no honest kernel's object has, in words for whoever wrote it."""
        if any(self.entry(tag) > POINTER for tag in (INITIALISERS, FINALISERS)) or self.entry(PREINITIALISERS):  # one is the compiler's own
            yield "it runs code while it is loaded or unloaded: make static objects constexpr, or make them inside the function"
        if INDIRECT.get(self.machine, -1) in self.relocations():
            yield "it chooses functions while it is loaded (ifunc, target_clones): -march=native already fits the processor"
        if any(tag == TEXT_RELOCATIONS or (tag == FLAGS and value & 4) for tag, value in self.entries):
            yield "its code would be changed while it is loaded"
        if any(s.flags & EXECUTE and (s.kind == STACK or (s.kind == LOAD and s.flags & WRITE)) for s in self.segments):
            yield "it has memory that can be both written and executed"
        if foreign := [name for name in self.libraries() if not LIBRARIES.fullmatch(name)]:
            yield f"it is linked with {', '.join(foreign[:5])}"
        data = [s for s in self.sections if s.flags & OCCUPIES and s.kind != NOBITS and not s.flags & EXECUTABLE]
        if sum(section.size for section in data) > DATA_BYTES:
            yield f"it holds more than {DATA_BYTES >> 20} MiB of data: compute what a table would hold"
        if self.machine == AARCH64 and self.calls_the_system():
            yield "its code has instructions that call the system, read a clock or change how floats are rounded"

    @property
    def static_bytes(self) -> int:
        """What it takes up as soon as it is loaded."""
        return sum(segment.in_memory for segment in self.segments if segment.kind == LOAD)

    def calls_the_system(self) -> bool:
        """Whether an instruction in its code is none a compiler would put there; aarch64 only, where all are four bytes long."""
        for section in (section for section in self.sections if section.flags & EXECUTABLE and section.kind != NOBITS):
            code = np.frombuffer(self.data, "<u4", section.size // 4, section.offset)
            if any(bool(((code & mask) == bits).any()) for mask, bits in SYSTEM):
                return True
        return False


def read(path: Path) -> Object | None:
    """None when the file is no 64-bit little-endian ELF object, as on macOS."""
    data = path.read_bytes()
    return Object(data) if data[:6] == b"\x7fELF\x02\x01" else None


def symbols(path: Path) -> Symbols | None:
    """What it needs and offers; None as above."""
    found = read(path)
    return found.symbols if found else None
