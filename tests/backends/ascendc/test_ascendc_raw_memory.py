"""What a kernel may access without the API: its tiling data, and its own variables in global memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from evokernel.backends.ascendc.build import build, move_gm_variables
from evokernel.backends.ascendc.project import Project
from evokernel.backends.native.toolchain import missing_compiler_message

HERE = Path(__file__).parent
SOURCES = HERE / "host_side"
HEAD = """#include "kernel_operator.h"
using namespace AscendC;
"""
SIGNATURE = 'extern "C" __global__ __aicore__ void copy_custom(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling)'
HALVES = """
  GlobalTensor<float> out;
  out.SetGlobalBuffer((__gm__ float*)y, 8);
  for (int i = 0; i < 4; i++) out.SetValue(4 * GetBlockIdx() + i, value);
"""
needs_compiler = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")


def call_twice(folder: Path, kernel: str) -> list[dict[str, Any]]:
    """Results and report of two calls, each of two blocks."""
    files = {name: (SOURCES / name).read_text() for name in ("operators.cpp", "tiling.h")} | {"kernel.cpp": kernel}
    build(
        Project("CopyCustom", "copy_custom", 4, files, "kernel.cpp", ("operators.cpp",), "tiling.h", "optiling::CopyTilingData", {}), folder
    )
    call = {"op": "PlainCustom", "given": [[[4, 3], "float32"]], "attributes": [], "outputs": [[[8], "float32"]]}
    command = [sys.executable, str(HERE / "host_calls.py"), str(folder), "2"]
    done = subprocess.run(command, input=json.dumps([call, call]), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    calls: list[dict[str, Any]] = json.loads(done.stdout)
    return calls


@needs_compiler
def test_variables_in_global_memory_last_for_one_launch(tmp_path: Path) -> None:
    """The blocks share them. Every launch starts with their first values, and gets no latency."""
    body = f"{{\n  uint32_t value = turns[0];\n  turns[0] = value + 1;{HALVES}}}\n"
    for call in call_twice(
        tmp_path,
        f"{HEAD}namespace own {{\nstatic volatile __gm__ uint32_t turns[16] = {{3}};\n}}\nusing namespace own;\n{SIGNATURE} {body}",
    ):
        assert call["code"] == "", call["text"]
        assert call["results"] == [[3, 3, 3, 3, 4, 4, 4, 4]]
        assert call["report"]["raw_pointers"]


@needs_compiler
def test_raw_reads_of_the_tiling_are_scalar_reads(tmp_path: Path) -> None:
    """Each block reads the one line of 64 bytes that holds the tiling data."""
    body = f"{{\n  auto* data = (__gm__ CopyTilingData*)tiling;\n  float value = data->number + 7.0f;{HALVES}}}\n"
    for call in call_twice(tmp_path, f"{HEAD}using namespace optiling;\n{SIGNATURE} {body}"):
        assert call["code"] == "", call["text"]
        assert call["results"] == [[7.0] * 8]
        assert not call["report"]["raw_pointers"]
        assert call["report"]["scalar_gm"] == 2 + 8


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("__gm__ int counter;\n", True),
        ("namespace a {\nstatic __gm__ float table[4] = {1, 2};\n}\n", True),
        ("static const __gm__ float table[4] = {1, 2};\n", False),
        ("void f(__gm__ float* x) {\n  __gm__ float* y = x;\n}\n", False),
        ("struct A {\n  __gm__ float* y;\n};\n", False),
        ("// __gm__ int counter;\n", False),
    ],
)
def test_only_variables_at_file_scope_are_moved(text: str, moved: bool) -> None:
    assert ("section" in move_gm_variables("\n" + text)) == moved


@pytest.mark.parametrize(
    ("text", "is_weak"),
    [
        ("__gm__ int counter;\n", True),
        ("namespace a {\n__gm__ int counter;\n}\n", True),
        ("static __gm__ int counter;\n", False),
        ("namespace {\n__gm__ int counter;\n}\n", False),
    ],
)
def test_public_variables_are_shared_by_the_objects_of_both_cores(text: str, is_weak: bool) -> None:
    moved = move_gm_variables("\n" + text)
    assert "section" in moved
    assert ("weak" in moved) == is_weak
