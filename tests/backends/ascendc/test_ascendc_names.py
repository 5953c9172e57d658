"""Whoever calls what Ascend C has not is told what it has; nobody is told that something is missing which is there."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from ascendc_mutants import HOST, KERNEL, base, build, kernels

from evokernel.backends.ascendc.api_names import HERE, advice, close, known, meant
from evokernel.backends.ascendc.build import TWIN
from evokernel.backends.native.toolchain import find, missing
from evokernel.core.errors import CandidateError

NAMES = tomllib.loads((HERE / "names.toml").read_text())["names"]
pytestmark = pytest.mark.skipif(missing("") is not None, reason=missing("") or "")


def undeclared(names: list[str], folder: Path) -> set[str]:
    """Those that the twin's headers declare neither in AscendC nor outside."""
    source = folder / "names.cpp"
    uses = "".join(f"using AscendC::{name};\n" for name in names)
    source.write_text(f'#include "kernel_operator.h"\n{uses}')
    options = ["-std=c++17", "-w", "-fsyntax-only", "-fmax-errors=0", "-DTWIN_KERNEL_TU", f"-I{TWIN / 'include'}", f"-I{TWIN / 'runtime'}"]
    done = subprocess.run(
        [str(find("")), *options, str(source)], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    )
    return set(re.findall(r"'(\w+)' has not been declared in 'AscendC'", done.stderr))


def test_invented_names_are_not_there_and_advised_ones_are(tmp_path):
    advised = sorted({word for text in NAMES.values() for word in re.findall(r"(?<![\w.])([A-Z]\w+)(?=\()", text)})
    found = undeclared([*NAMES, *advised], tmp_path)
    assert not set(NAMES) - found, "the twin has these: delete them from names.toml"
    assert not found & set(advised), "the twin has not what names.toml advises"


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("Dup", "Duplicate"),
        ("Maximum", "Max("),
        ("Softmax", "SoftMax"),
        ("MatMul", "Matmul"),
        ("Less", "Compare"),
        ("Rec", "Reciprocal"),
        ("Clip", "Maxs"),
        ("Pow", "Power"),
        ("Enqueue", "EnQue"),
        ("Dequeue", "DeQue"),
        ("Allocate", "AllocTensor"),
        ("Datacopy", "DataCopy"),
        ("ReduceSums", "ReduceSum"),
        ("Setflag", "SetFlag"),
        ("GetBlockIndex", "GetBlockIdx"),
        ("AllocTensors", "AllocTensor"),
    ],
)
def test_advice_names_the_right_one(name, right):
    assert right in advice(name)


def test_nothing_is_said_about_names_of_the_candidates_own():
    assert not advice("numberOfTilesInMyKernel")
    assert not meant("error: 'tile_count' was not declared in this scope")


def test_close_names_are_found_whatever_their_case():
    assert close("duplicate", known())[0] == "Duplicate"


@pytest.mark.parametrize(
    "text",
    [
        "error: 'Dup' is not a member of 'AscendC'; did you mean 'Dump'?",
        "error: ‘Dup’ was not declared in this scope",
        "error: there are no arguments to 'Dup' that depend on a template parameter, so a declaration of 'Dup' must be available",
        "error: 'AscendC::Dup' has not been declared",
        "error: 'class AscendC::TPipe' has no member named 'Dup'",
    ],
)
def test_all_the_compilers_words_for_it_are_read(text):
    assert meant(text) == [f"there is no Dup in Ascend C: {NAMES['Dup']}"]


def test_a_compile_error_says_what_was_meant(tmp_path):
    kernel = base("queues").replace(
        "Muls(doubled, y, 2.0f, count);", "AscendC::Dup(doubled, 2.0f, count); Maximum(doubled, doubled, y, count);"
    )
    kernel = kernel.replace("outQueue.EnQue(sum);", "outQueue.Enqueue(sum);")
    with pytest.raises(CandidateError) as caught:
        build({"tiling.h": base("tiling.h"), HOST: base("host"), KERNEL: kernels([kernel])[0]}, tmp_path)
    assert caught.value.reason == "compile_error"
    for name in ("Dup", "Maximum", "Enqueue"):
        assert f"there is no {name} in Ascend C: {NAMES[name]}" in caught.value.detail
