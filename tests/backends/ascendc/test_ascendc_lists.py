"""Operators on lists of tensors, and other features of published projects: tiling classes, own launches, omitted operands."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evokernel.backends.ascendc.build import build
from evokernel.backends.ascendc.project import Project
from evokernel.backends.ascendc.project_parser import parse_project
from evokernel.backends.native.toolchain import missing_compiler_message
from evokernel.core.records import Signature, Tensor

HERE = Path(__file__).parent
FILES = {f"op_{part}/{name}": (HERE / "host_lists" / name).read_text() for part, name in
         (("host", "operator.cpp"), ("host", "tiling.h"), ("kernel", "kernel.cpp"))}  # fmt: skip
SHAPES = ([4, 3], [5], [2, 1, 2])
pytestmark = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")


def project() -> Project:
    tensors = tuple(Tensor(name=f"t{n}", dtype="float32", shape=tuple(shape)) for n, shape in enumerate(SHAPES))
    return parse_project(FILES, Signature(inputs=tensors, outputs=tensors))


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("lists")
    build(project(), folder)
    tensors = [[shape, "float32"] for shape in SHAPES]
    calls = {
        "lists": {"op": "ScaleList", "given": [*tensors, None], "attributes": [3.0], "outputs": tensors},
        "one": {"op": "ScaleList", "given": tensors[:1], "attributes": [], "outputs": tensors[:1]},
        "negated": {"op": "ScaleList", "given": tensors[:2], "attributes": [], "outputs": tensors[:1]},
        "uneven": {"op": "Pairs", "given": tensors, "attributes": [], "outputs": tensors[:1]},
    }
    done = subprocess.run([sys.executable, str(HERE / "host_calls.py"), str(folder), "2"], input=json.dumps(list(calls.values())),
                          capture_output=True, text=True, check=True)  # fmt: skip
    return dict(zip(calls, json.loads(done.stdout), strict=True))


def scaled(shape: list[int], factor: float) -> list[float]:
    return (np.arange(np.prod(shape)) * factor + len(shape)).tolist()


def test_kernel_sees_only_the_tiling_structs():
    made = project()
    assert made.tiling_header == "op_host/tiling_structs.h"
    assert "TILING_DATA_FIELD_DEF_ARR(uint8_t, (2 * 4), spare)" in made.files[made.tiling_header]
    assert "std::" not in made.files[made.tiling_header]
    assert "other" not in made.files[made.tiling_header]


@pytest.mark.slow(one_in=5)
def test_lists_of_tensors(answers):
    assert answers["lists"]["code"] == ""
    assert answers["lists"]["results"] == [scaled(shape, 3) for shape in SHAPES]
    assert answers["lists"]["report"]["tiling_key"] == 7
    assert not answers["lists"]["report"]["raw_pointers"]


def test_optional_operands_may_be_omitted(answers):
    assert answers["one"]["results"] == [scaled(SHAPES[0], 2)]
    assert answers["negated"]["results"] == [scaled(SHAPES[0], -2)]


def test_lists_must_have_equal_lengths(answers):
    assert answers["uneven"]["code"] == "E-OP-DYNAMIC"
