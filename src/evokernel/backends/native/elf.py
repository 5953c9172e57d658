"""Reads imports, exports and load-time behaviour of an ELF shared object, without external tools."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evokernel.core.errors import CandidateError

SYMTAB, NOBITS, DYNSYM = 2, 8, 11
WRITABLE, OCCUPIES, EXECUTABLE = 1, 2, 4
LOAD, DYNAMIC, STACK = 1, 2, 0x6474E551
EXECUTE, WRITE = 1, 2
NEEDED, PLT_SIZE, NAMES, RELA, RELA_SIZE, TEXT_RELOCATIONS, FLAGS, PLT = 1, 2, 5, 7, 8, 22, 30, 23
INITIALISERS, FINALISERS, PREINITIALISERS = 27, 28, 33
HEADER = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
DYNAMIC_ENTRY = struct.Struct("<QQ")
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
MAX_NAME_BYTES = 1 << 25
"""Most bytes of names that are read from one object; names may overlap, so the size of the file does not limit them."""
MAGIC = b"\x7fELF\x02\x01"
"""First bytes of a 64-bit little-endian ELF object."""


class DynamicSymbols(NamedTuple):
    """The names in an object's dynamic symbol table."""

    imported_names: tuple[str, ...]
    exported_names: tuple[str, ...]


class Symbol(NamedTuple):
    """One entry of a symbol table."""

    name: str
    kind: int
    binding: int
    section: int
    """Section number; 0 if another object must define it."""


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
    """A 64-bit little-endian ELF object. Candidates influence its bytes: whatever they are, reading ends soon or raises CandidateError."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.name_bytes = 0
        (self.machine,) = self.unpack(struct.Struct("<H"), 18)
        at, section_at = self.unpack(struct.Struct("<QQ"), 32)
        size, count, section_size, section_count, self.names_index = self.unpack(struct.Struct("<HHHHH"), 54)
        if (count and size != HEADER.size) or (section_at and (section_size != SECTION.size or not section_count)):
            raise malformed_object("its header tables have an unknown layout")
        self.segments = [Segment(*self.unpack(HEADER, at + i * size)) for i in range(count)]
        self.sections = [Section(*self.unpack(SECTION, section_at + i * section_size)) for i in range(section_count)]
        stored = [section for section in self.sections if section.kind not in (0, NOBITS)]
        self.end = max([section_at + section_count * section_size, *(section.offset + section.size for section in stored)])
        if self.end > len(data) or sum(section.size for section in stored) > len(data):
            raise malformed_object("its sections overlap, or end after the file")

    def unpack(self, layout: struct.Struct, at: int) -> tuple[Any, ...]:
        """Reads numbers at a file offset."""
        try:
            return layout.unpack_from(self.data, at)
        except (struct.error, OverflowError) as error:
            raise malformed_object("it refers to bytes after its end") from error

    def string_at(self, at: int) -> str:
        """Reads the zero-terminated string at a file offset."""
        end = self.data.find(b"\0", at)
        self.name_bytes += end - at
        if not at <= end or self.name_bytes > MAX_NAME_BYTES:
            raise malformed_object("a name has no end, or its names are too long")
        return self.data[at:end].decode(errors="replace")

    def section_at(self, index: int) -> Section:
        """The section with a number."""
        if index >= len(self.sections):
            raise malformed_object(f"it refers to section {index} of {len(self.sections)}")
        return self.sections[index]

    def section_name(self, section: Section) -> str:
        """The name of a section."""
        return self.string_at(self.section_at(self.names_index).offset + section.name)

    def file_offset(self, address: int) -> int:
        """Converts a load address to an offset in the file; 0 if no segment contains it."""
        for segment in self.segments:
            if segment.kind == LOAD and segment.address <= address < segment.address + segment.in_file:
                return address - segment.address + segment.offset
        return 0

    @cached_property
    def dynamic_entries(self) -> list[tuple[int, int]]:
        """The dynamic section: (tag, value) pairs for the dynamic linker."""
        start, size = next(((s.offset, s.in_file) for s in self.segments if s.kind == DYNAMIC), (0, 0))
        entries = (self.unpack(DYNAMIC_ENTRY, at) for at in range(start, start + size, DYNAMIC_ENTRY.size))
        return [(tag, value) for tag, value in entries]

    def dynamic_value(self, tag: int) -> int:
        """The value of a tag of the dynamic section; 0 if it has none."""
        return next((value for key, value in self.dynamic_entries if key == tag), 0)

    def read_symbol_table(self, kind: int) -> Iterator[Symbol]:
        """Yields the named symbols of the tables of a kind: `SYMTAB` or `DYNSYM`."""
        for section in (section for section in self.sections if section.kind == kind):
            names = self.section_at(section.link).offset
            for at in range(section.offset + SYMBOL.size, section.offset + section.size, SYMBOL.size):
                name_at, info, _, home, _, _ = self.unpack(SYMBOL, at)
                if name := self.string_at(names + name_at):
                    yield Symbol(name, info & 15, info >> 4, home)

    @cached_property
    def symbols(self) -> DynamicSymbols:
        """Imported and exported names of the dynamic symbol table."""
        table = list(self.read_symbol_table(DYNSYM))
        return DynamicSymbols(tuple(s.name for s in table if not s.section), tuple(s.name for s in table if s.section))

    def relocation_types(self) -> Iterator[int]:
        """Yields the type of every relocation that the loader applies."""
        for tag, size in ((RELA, RELA_SIZE), (PLT, PLT_SIZE)):
            start = self.file_offset(self.dynamic_value(tag))
            for at in range(start, start + self.dynamic_value(size) if start else 0, RELOCATION.size):
                yield self.unpack(RELOCATION, at)[1] & 0xFFFFFFFF

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


def malformed_object(reason: str) -> CandidateError:
    """The error for an object that no compiler writes."""
    return CandidateError("forbidden", f"the built object is malformed: {reason}; leave sections and symbols to the compiler")


def read_elf(path: Path) -> ElfObject | None:
    """Reads an object; returns None where objects have another format, as on macOS."""
    data = path.read_bytes()
    if data.startswith(MAGIC):
        return ElfObject(data)
    if sys.platform == "linux":
        raise malformed_object("it is not a 64-bit little-endian ELF object")
    return None


def read_symbols(path: Path) -> DynamicSymbols | None:
    """Reads imported and exported names; returns None where objects have another format, as on macOS."""
    elf_object = read_elf(path)
    return elf_object.symbols if elf_object else None
