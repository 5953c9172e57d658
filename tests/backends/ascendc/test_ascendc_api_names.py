"""Unknown API names get a suggestion, and existing names do not."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from ascendc_mutants import HOST, KERNEL, base, build, kernels

from evokernel.backends.ascendc.api_names import HERE, declared_names, find_close_matches, suggest_name, suggest_names
from evokernel.backends.ascendc.build import SIMULATOR_FOLDER
from evokernel.backends.native.toolchain import find_compiler, missing_compiler_message
from evokernel.core.errors import CandidateError

NAMES = tomllib.loads((HERE / "names.toml").read_text())["names"]
pytestmark = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")


def undeclared(names: list[str], folder: Path) -> set[str]:
    """Those that the simulator's headers declare neither in AscendC nor outside."""
    source = folder / "names.cpp"
    uses = "".join(f"using AscendC::{name};\n" for name in names)
    source.write_text(f'#include "kernel_operator.h"\n{uses}')
    options = [
        "-std=c++17",
        "-w",
        "-fsyntax-only",
        "-fmax-errors=0",
        "-DSIMULATOR_KERNEL_TU",
        f"-I{SIMULATOR_FOLDER / 'include'}",
        f"-I{SIMULATOR_FOLDER / 'runtime'}",
    ]
    done = subprocess.run(
        [str(find_compiler("")), *options, str(source)], capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}
    )
    return set(re.findall(r"'(\w+)' has not been declared in 'AscendC'", done.stderr))


@pytest.mark.toolchain
def test_invented_names_do_not_exist_and_suggested_names_do(tmp_path):
    advised = sorted({word for text in NAMES.values() for word in re.findall(r"(?<![\w.])([A-Z]\w+)(?=\()", text)})
    found = undeclared([*NAMES, *advised], tmp_path)
    assert not set(NAMES) - found, "the simulator has these: delete them from names.toml"
    assert not found & set(advised), "the simulator has not what names.toml advises"


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
def test_suggestion_names_the_existing_function(name, right):
    assert right in suggest_name(name)


def test_no_suggestion_for_names_of_the_candidate():
    assert not suggest_name("numberOfTilesInMyKernel")
    assert not suggest_names("error: 'tile_count' was not declared in this scope")


def test_close_names_are_found_ignoring_case():
    assert find_close_matches("duplicate", declared_names())[0] == "Duplicate"


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
def test_all_compiler_messages_about_unknown_names_are_parsed(text):
    assert suggest_names(text) == [f"Ascend C has no Dup: {NAMES['Dup']}"]


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
def test_compile_error_suggests_existing_names(tmp_path):
    kernel = base("queues").replace(
        "Muls(doubled, y, 2.0f, count);", "AscendC::Dup(doubled, 2.0f, count); Maximum(doubled, doubled, y, count);"
    )
    kernel = kernel.replace("outQueue.EnQue(sum);", "outQueue.Enqueue(sum);")
    with pytest.raises(CandidateError) as caught:
        build({"tiling.h": base("tiling.h"), HOST: base("host"), KERNEL: kernels([kernel])[0]}, tmp_path)
    assert caught.value.reason == "compile_error"
    for name in ("Dup", "Maximum", "Enqueue"):
        assert f"Ascend C has no {name}: {NAMES[name]}" in caught.value.detail


@pytest.mark.slow(one_in=5)
@pytest.mark.toolchain
@pytest.mark.parametrize(
    ("declared", "given"),
    [("TQue<TPosition::VECCALC, 1>", "extra, 256"), ("TBuf<TPosition::VECCALC>", "extra, 1, 256")],
)
def test_queues_take_a_count_of_buffers_and_tbuf_takes_none(tmp_path, declared, given):
    marker = "Muls(doubled, y, 2.0f, count);"
    kernel = base("queues").replace(marker, f"{declared} extra; GetTPipePtr()->InitBuffer({given}); {marker}")
    assert given in kernel
    with pytest.raises(CandidateError) as caught:
        build({"tiling.h": base("tiling.h"), HOST: base("host"), KERNEL: kernels([kernel])[0]}, tmp_path)
    assert caught.value.reason == "compile_error"
    assert "InitBuffer" in caught.value.detail
