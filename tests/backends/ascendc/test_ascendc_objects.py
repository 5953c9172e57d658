"""What a compiled kernel may keep: nothing but constants, whatever names the assembler gives to parts of its sections."""

import subprocess
from pathlib import Path

import pytest

from evokernel.backends.ascendc.object_checks import check_kernel, is_variable, symbols
from evokernel.backends.native.elf import read
from evokernel.backends.native.toolchain import find, missing
from evokernel.core.errors import CandidateError

pytestmark = pytest.mark.skipif(missing("") is not None, reason=missing("") or "")


def compiled(tmp_path: Path, text: str) -> Path:
    (tmp_path / "kernel.cpp").write_text(text)
    subprocess.run([find(""), "-O2", "-fPIC", "-c", "kernel.cpp", "-o", "kernel.o"], cwd=tmp_path, check=True)
    return tmp_path / "kernel.o"


def test_what_a_kernel_keeps_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CandidateError, match="`counter`") as caught:
        check_kernel(compiled(tmp_path, "static int counter = 1; int next() { return ++counter; }"), [])
    assert caught.value.reason == "unsupported"


@pytest.mark.parametrize("name", ["$d", "$d.4", ".LANCHOR1", ".LC0", "_ZN4twin4coreE"])
def test_names_of_the_assembler_and_of_the_twin_are_nobodys_variables(tmp_path: Path, name: str) -> None:
    built = read(compiled(tmp_path, "static int counter = 1; int next() { return ++counter; }"))
    assert built
    (counter,) = [symbol for symbol in symbols(built) if "counter" in symbol.name]
    assert is_variable(built, counter)
    assert not is_variable(built, counter._replace(name=name))
