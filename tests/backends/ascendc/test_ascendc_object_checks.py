"""A compiled kernel may have constants but no global variables."""

import subprocess
from pathlib import Path

import pytest

from evokernel.backends.ascendc.object_checks import check_kernel_object, is_writable_variable
from evokernel.backends.native.elf import SYMTAB, read_elf
from evokernel.backends.native.toolchain import find_compiler, missing_compiler_message
from evokernel.core.errors import CandidateError

pytestmark = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")


def compile_kernel(tmp_path: Path, text: str) -> Path:
    (tmp_path / "kernel.cpp").write_text(text)
    subprocess.run([find_compiler(""), "-O2", "-fPIC", "-c", "kernel.cpp", "-o", "kernel.o"], cwd=tmp_path, check=True)
    return tmp_path / "kernel.o"


def test_global_variables_of_a_kernel_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CandidateError, match="`counter`") as caught:
        check_kernel_object(compile_kernel(tmp_path, "static int counter = 1; int next() { return ++counter; }"), [])
    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize("name", ["$d", "$d.4", ".LANCHOR1", ".LC0", "_ZN9simulator4coreE"])
def test_symbols_of_assembler_and_simulator_are_ignored(tmp_path: Path, name: str) -> None:
    built = read_elf(compile_kernel(tmp_path, "static int counter = 1; int next() { return ++counter; }"))
    assert built
    (counter,) = [symbol for symbol in built.read_symbol_table(SYMTAB) if "counter" in symbol.name]
    assert is_writable_variable(built, counter)
    assert not is_writable_variable(built, counter._replace(name=name))
