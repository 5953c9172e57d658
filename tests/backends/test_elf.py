"""The reader of built objects agrees with pyelftools on real objects, and refuses malformed ones at once."""

import io
import struct
import subprocess
from pathlib import Path
from random import Random

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from evokernel.backends.gpu.cubin import read_kernels
from evokernel.backends.native.elf import DYNSYM, MAGIC, SECTION, SYMBOL, SYMTAB, ElfObject, read_elf
from evokernel.backends.native.toolchain import find_compiler, missing_compiler_message
from evokernel.core.errors import CandidateError

needs_compiler = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")
CODE = """#include <cmath>
#include <vector>
static int counter = 1;
extern "C" void kernel(float* x) { std::vector<float> v(*x + ++counter); x[0] = std::exp(x[1]) + v[1]; }
"""
PROGBITS, STRTAB = 1, 3


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    (folder / "kernel.cpp").write_text(CODE)
    subprocess.run([find_compiler(""), "-O2", "-fPIC", "-shared", "kernel.cpp", "-o", "kernel.so"], cwd=folder, check=True)
    return folder / "kernel.so"


def build_elf(sections: list[tuple[int, bytes]], *, copies: int = 1, machine: int = 62) -> bytes:
    """An object with these sections (kind, data), whose table repeats the last section; names come from the first."""
    body, rows, at = b"", [bytes(SECTION.size)], 64
    for kind, data in sections:
        rows.append(SECTION.pack(1, kind, 0, 0, at, len(data), 1, 0, 0, 0))
        body, at = body + data, at + len(data)
    rows += [rows[-1]] * (copies - 1)
    numbers = struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 0, at, 0, 64, 56, 0, SECTION.size, len(rows), 1)
    return MAGIC + b"\1" + bytes(9) + numbers + body + b"".join(rows)


def read_everything(data: bytes) -> ElfObject:
    built = ElfObject(data)
    assert built.symbols is not None
    list(built.read_symbol_table(SYMTAB))
    list(built.find_suspicious_features())
    [built.section_name(section) for section in built.sections]
    built.has_system_instructions()
    return built


@needs_compiler
def test_reader_agrees_with_pyelftools(library):
    built, expected = read_elf(library), ELFFile(io.BytesIO(library.read_bytes()))
    (dynamic,) = [segment for segment in expected.iter_segments() if isinstance(segment, DynamicSegment)]
    for kind, name in ((DYNSYM, ".dynsym"), (SYMTAB, ".symtab")):
        names = [symbol.name for symbol in expected.get_section_by_name(name).iter_symbols() if symbol.name]
        assert [symbol.name for symbol in built.read_symbol_table(kind)] == names
    assert "kernel" in built.symbols.exported_names
    assert [built.section_name(section) for section in built.sections] == [section.name for section in expected.iter_sections()]
    assert built.linked_libraries() == [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
    tables = dynamic.get_relocation_tables()
    types = [row["r_info_type"] for name in ("RELA", "JMPREL") if name in tables for row in tables[name].iter_relocations()]
    assert list(built.relocation_types()) == types
    assert built.loaded_bytes == sum(segment["p_memsz"] for segment in expected.iter_segments("PT_LOAD"))


@needs_compiler
def test_damaged_objects_are_read_or_refused(library):
    data, random, refused = library.read_bytes(), Random(0), 0
    for _ in range(500):
        damaged = bytearray(data if random.random() < 0.8 else data[: random.randrange(64, len(data))])
        for _ in range(random.choice([1, 3, 10])):
            places = (random.randrange(6, 64), random.randrange(64, len(damaged)), max(6, len(damaged) - random.randrange(1, 2000)))
            damaged[random.choice(places)] = random.randrange(256)
        try:
            read_everything(bytes(damaged))
        except CandidateError:
            refused += 1
    assert 100 < refused < 500


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\1\1" + bytes(58), b"!<arch>\n" + bytes(80)])
def test_files_that_are_not_objects_are_refused(data, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    (tmp_path / "kernel.so").write_bytes(data)
    with pytest.raises(CandidateError, match="not a 64-bit little-endian ELF object"):
        read_elf(tmp_path / "kernel.so")
    monkeypatch.setattr("sys.platform", "darwin")
    assert read_elf(tmp_path / "kernel.so") is None


SYMBOLS = SYMBOL.pack(1, 18, 0, 1, 0, 0) * 5000
HOSTILE = {
    "the same symbols 60,000 times": (build_elf([(STRTAB, b"\0a\0"), (DYNSYM, SYMBOLS)], copies=60_000), "sections overlap"),
    "code listed 60,000 times": (build_elf([(STRTAB, b"\0a\0"), (PROGBITS, bytes(1 << 20))], copies=60_000), "sections overlap"),
    "long names that overlap": (build_elf([(STRTAB, b"\0" + b"a" * (1 << 20) + b"\0"), (DYNSYM, SYMBOLS)]), "names are too long"),
    "names without an end": (build_elf([(STRTAB, b"\0"), (DYNSYM, SYMBOL.pack(1 << 31, 18, 0, 1, 0, 0) * 2)]), "no end"),
    "no bytes after the magic": (MAGIC, "after its end"),
    "sections of no size": (build_elf([(STRTAB, b"\0")])[:58] + bytes(2) + build_elf([(STRTAB, b"\0")])[60:], "unknown layout"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_objects_are_refused_at_once(name):
    data, reason = HOSTILE[name]
    with pytest.raises(CandidateError, match=reason):
        read_everything(data)  # without the refusal, the first two take longer than the test's time limit


def test_valid_minimal_object_is_read():
    built = read_everything(build_elf([(STRTAB, b"\0a\0"), (DYNSYM, SYMBOL.pack(0, 0, 0, 0, 0, 0) + SYMBOL.pack(1, 18, 0, 2, 0, 0))]))
    assert built.symbols.exported_names == ("a",)


def test_device_code_inside_the_data_of_device_code_is_not_read():
    names = b"\0.nv.info.inner\0.nv.info.outer\0"
    inner = build_elf([(STRTAB, names)], machine=190)
    outer = build_elf([(STRTAB, b"\0.nv.info.outer\0" + inner)], machine=190)
    assert set(read_kernels(inner)) == {"inner"}
    assert set(read_kernels(b"container" + outer)) == {"outer"}
    assert set(read_kernels(b"container" + outer + inner)) == {"inner", "outer"}


def test_damaged_device_code_is_refused():
    image = build_elf([(STRTAB, b"\0.nv.info\0"), (PROGBITS, struct.pack("<BBHH", 4, 0x2F, 2, 0))], machine=190)
    with pytest.raises(CandidateError, match="attribute of a kernel"):
        read_kernels(image)
    with pytest.raises(CandidateError, match="malformed"):
        read_kernels(image[:-1])
