"""Reads imports, exports and load-time behaviour of an ELF shared object, without external tools."""

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
IFUNC_RELOCATIONS = {62: 37, 183: 1032, 243: 58}
"""By machine: the relocation type that makes the loader call a resolver function of the object (ifunc)."""
AARCH64 = 183
SYSTEM_INSTRUCTIONS = ((0xFFE0001C, 0xD4000000), (0xFFFFFFE0, 0xD51B4400), (0xFFFFFF00, 0xD53BE000))
"""On aarch64, (mask, bits) of instructions that make system calls (svc, hvc, smc), write the floating-point mode, or read the clock."""
ALLOWED_LIBRARIES = re.compile(
    r"lib(stdc\+\+|c\+\+|c\+\+abi|m|mvec|gcc_s|gomp|omp|iomp5|atomic|c|unwind)\.so[.\d]*|ld-linux[-\w]*\.so[.\d]*"
)
MAX_DATA_BYTES = 1 << 20


class DynamicSymbols(NamedTuple):
    """The names in an object's dynamic symbol table."""

    imported_names: tuple[str, ...]
    exported_names: tuple[str, ...]


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


class ElfObject:
    """A 64-bit little-endian ELF object."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        (self.machine,) = struct.unpack_from("<H", data, 18)
        at, section_at = struct.unpack_from("<QQ", data, 32)
        size, count, section_size, section_count = struct.unpack_from("<HHHH", data, 54)
        self.segments = [Segment(*HEADER.unpack_from(data, at + i * size)) for i in range(count)]
        self.sections = [Section(*SECTION.unpack_from(data, section_at + i * section_size)) for i in range(section_count)]

    def string_at(self, at: int) -> str:
        """Reads the zero-terminated string at a file offset."""
        return self.data[at : self.data.index(b"\0", at)].decode(errors="replace")

    def file_offset(self, address: int) -> int:
        """Converts a load address to an offset in the file; 0 if no segment contains it."""
        for segment in self.segments:
            if segment.kind == LOAD and segment.address <= address < segment.address + segment.in_file:
                return address - segment.address + segment.offset
        return 0

    @cached_property
    def dynamic_entries(self) -> list[tuple[int, int]]:
        """The dynamic section: (tag, value) pairs for the dynamic linker."""
        dynamic_range = next(((s.offset, s.in_file) for s in self.segments if s.kind == DYNAMIC), (0, 0))
        return [struct.unpack_from("<QQ", self.data, at) for at in range(dynamic_range[0], sum(dynamic_range), 2 * POINTER)]

    def dynamic_value(self, tag: int) -> int:
        """The value of a tag of the dynamic section; 0 if it has none."""
        return next((value for key, value in self.dynamic_entries if key == tag), 0)

    @cached_property
    def symbols(self) -> DynamicSymbols:
        """Imported and exported names of the dynamic symbol table."""
        imported_names: list[str] = []
        exported_names: list[str] = []
        for section in (section for section in self.sections if section.kind == DYNSYM):
            names = self.sections[section.link].offset
            for at in range(section.offset + SYMBOL.size, section.offset + section.size, SYMBOL.size):
                name_at, _, _, home, _, _ = SYMBOL.unpack_from(self.data, at)
                if name := self.string_at(names + name_at):
                    (exported_names if home else imported_names).append(name)
        return DynamicSymbols(tuple(imported_names), tuple(exported_names))

    def relocation_types(self) -> Iterator[int]:
        """Yields the type of every relocation that the loader applies."""
        for tag, size in ((RELA, RELA_SIZE), (PLT, PLT_SIZE)):
            start = self.file_offset(self.dynamic_value(tag))
            for at in range(start, start + self.dynamic_value(size) if start else 0, RELOCATION.size):
                yield RELOCATION.unpack_from(self.data, at)[1] & 0xFFFFFFFF

    def linked_libraries(self) -> list[str]:
        """Names of the shared libraries it is linked with."""
        names = self.file_offset(self.dynamic_value(NAMES))
        return [self.string_at(names + value) for tag, value in self.dynamic_entries if tag == NEEDED]

    def find_suspicious_features(self) -> Iterator[str]:
        """Yields each feature that an honest kernel's object does not have, as a message to the author of the kernel."""
        if any(self.dynamic_value(tag) > POINTER for tag in (INITIALISERS, FINALISERS)) or self.dynamic_value(
            PREINITIALISERS
        ):  # one is the compiler's own
            yield "it runs code while it is loaded or unloaded; make static objects constexpr, or create them inside the function"
        if IFUNC_RELOCATIONS.get(self.machine, -1) in self.relocation_types():
            yield "it selects functions at load time (ifunc, target_clones); remove that, -march=native already fits the processor"
        if any(tag == TEXT_RELOCATIONS or (tag == FLAGS and value & 4) for tag, value in self.dynamic_entries):
            yield "it has text relocations, so the loader would modify its code"
        if any(s.flags & EXECUTE and (s.kind == STACK or (s.kind == LOAD and s.flags & WRITE)) for s in self.segments):
            yield "it has memory that is both writable and executable"
        if foreign := [name for name in self.linked_libraries() if not ALLOWED_LIBRARIES.fullmatch(name)]:
            yield f"it is linked with {', '.join(foreign[:5])}"
        data = [s for s in self.sections if s.flags & OCCUPIES and s.kind != NOBITS and not s.flags & EXECUTABLE]
        if sum(section.size for section in data) > MAX_DATA_BYTES:
            yield f"it holds more than {MAX_DATA_BYTES >> 20} MiB of data; compute values instead of storing tables"
        if self.machine == AARCH64 and self.has_system_instructions():
            yield "it contains instructions that make system calls, read a clock or change the floating-point rounding mode"

    @property
    def loaded_bytes(self) -> int:
        """Memory that the object occupies once it is loaded."""
        return sum(segment.in_memory for segment in self.segments if segment.kind == LOAD)

    def has_system_instructions(self) -> bool:
        """Whether its code contains an instruction of `SYSTEM_INSTRUCTIONS`; aarch64 only, where every instruction has four bytes."""
        for section in (section for section in self.sections if section.flags & EXECUTABLE and section.kind != NOBITS):
            code = np.frombuffer(self.data, "<u4", section.size // 4, section.offset)
            if any(bool(((code & mask) == bits).any()) for mask, bits in SYSTEM_INSTRUCTIONS):
                return True
        return False


def read_elf(path: Path) -> ElfObject | None:
    """Reads an object; returns None if the file is not a 64-bit little-endian ELF object, as on macOS."""
    data = path.read_bytes()
    return ElfObject(data) if data[:6] == b"\x7fELF\x02\x01" else None


def read_symbols(path: Path) -> DynamicSymbols | None:
    """Reads imported and exported names; returns None if the file is not a 64-bit little-endian ELF object."""
    elf_object = read_elf(path)
    return elf_object.symbols if elf_object else None
