"""Tilings of the library's host functions cover the work and fit into the memories."""

import subprocess
from math import ceil
from pathlib import Path

import pytest

from evokernel.backends.ascendc.build import LANGUAGE_FLAGS, SIMULATOR_FOLDER, ensure_runtime_library
from evokernel.backends.native.toolchain import find_compiler, missing_compiler_message

CHECKS = Path(__file__).parent / "host_tiling" / "checks.cpp"
L0A, L0C = 64 * 1024, 128 * 1024
pytestmark = pytest.mark.skipif(missing_compiler_message("") is not None, reason=missing_compiler_message("") or "")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """The lines by their first word, numbers as numbers."""
    compiler, made = find_compiler(""), tmp_path_factory.mktemp("tiling") / "checks"
    runtime = ensure_runtime_library(compiler)
    places = [f"-I{SIMULATOR_FOLDER / 'include'}", f"-I{SIMULATOR_FOLDER / 'runtime'}"]
    subprocess.run(
        [compiler, *LANGUAGE_FLAGS, *places, str(CHECKS), str(runtime), f"-Wl,-rpath,{runtime.parent}", "-o", str(made)], check=True
    )
    found: dict[str, list[list[int]]] = {}
    for line in subprocess.run([made], check=True, capture_output=True, text=True).stdout.splitlines():
        word, *rest = line.split()
        word = f"{word} {rest.pop(0)}" if word == "scratch" else word
        found.setdefault(word, []).append([int(number) for number in rest])
    return found


def test_matmul_tiling_covers_the_product(said):
    split = [row for row in said["matmul"] if row[4] == 0]
    assert len(split) == 12
    for m, n, k, cores, _, used, single_m, single_n, single_k, base_m, base_n, base_k in split:
        assert ceil(m / single_m) * ceil(n / single_n) == used <= cores
        assert single_k == k
        assert base_m % 16 == base_n % 16 == base_k % 16 == 0
        assert base_m * base_n * 4 <= L0C
        assert 2 * 2 * base_k * max(base_m, base_n) <= L0A


def test_large_matmul_uses_all_cores(said):
    assert {row[3]: row[5] for row in said["matmul"] if row[0] == 4096} == {1: 1, 7: 7, 24: 24}


def test_invalid_sizes_and_blocks_are_refused(said):
    assert said["matmul"][-1][4] == -1
    assert {tuple(row[:2]): row[2] for row in said["fixed"]} == {(128, 256): 0, (256, 256): -1}


def test_rows_are_split_by_available_scratch(said):
    for rows, width, given, least, most, once, rounds, tail in said["softmax"]:
        assert width * 4 <= least <= most
        assert once * rounds + tail == rows
        assert 1 <= once <= rows
        assert once == 1 or once * least <= given


def test_layer_norm_tiling_has_padded_and_original_row(said):
    assert said["layernorm"] == [[2, 16, 64, 61, 1]]
    assert said["separate"] == [[2, 61, 2 * 64]]


def test_scratch_is_a_multiple_of_the_source_size(said):
    assert said["scratch tanh"] == [[4, 1024 * 4, 256], [2, 4 * 1024 * 2, 4 * 256]]
    assert said["scratch erf"] == [[4, 3 * 1024 * 4, 3 * 256]]


def test_system_reserves_some_local_memory(said):
    assert said["ub"] == [[192 * 1024 - 256]]
