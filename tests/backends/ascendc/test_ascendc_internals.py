"""Internals that published kernels call: address registers, raw pointers, free local memory, and copies of slices."""

import numpy as np
import pytest
from vector_bench import Bench, numbers


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def test_transposition_with_registers_and_pointers(bench: Bench) -> None:
    x = numbers(256, "float16").reshape(16, 16)
    np.testing.assert_array_equal(bench.run("registers_turn", [x], [], "float16", (16, 16)), x.T)
    y = numbers(128, "float32").reshape(16, 8)
    np.testing.assert_array_equal(bench.run("pointers_turn", [y], [], "float32", (8, 16)), y.T)


def test_free_local_memory_as_tensor(bench: Bench) -> None:
    assert bench.run("rest_of_memory", [], [1000], "uint32", 1)[0] == 192 * 1024 - 1024
    assert bench.run("rest_of_memory", [], [192 * 1024], "uint32", 1)[0] == 0


def test_scalars_have_a_minimum_and_a_maximum(bench: Bench) -> None:
    np.testing.assert_array_equal(bench.run("scalar_extremes", [], [], "int64", 2), [-5, 7])


def test_copies_of_slices(bench: Bench) -> None:
    x = np.arange(264, dtype="float32")
    whole = x[:261].reshape(3, 87)
    wanted = np.stack([np.concatenate([whole[row, 16:40], whole[row, 47:71]]) for row in (0, 2)])
    np.testing.assert_array_equal(bench.run("slices_in", [x], [], "float32", (2, 48)), wanted)
    part = -np.arange(1, 97, dtype="float32").reshape(2, 48)
    got = bench.run("slices_out", [x, part], [], "float32", 264)[:261].reshape(3, 87)
    expected = whole.copy()
    for row, values in zip((0, 2), part, strict=True):
        expected[row, 16:40], expected[row, 47:71] = values[:24], values[24:]
    np.testing.assert_array_equal(got, expected)
    assert bench.breaks("slices_differ", [x], []) == "E-COPY-COUNT"


def test_local_memory_without_a_pipe(bench: Bench) -> None:
    np.testing.assert_array_equal(bench.run("allocator", [], [100], "uint64", 2), [64, 64 + 224])
    assert bench.breaks("allocator", [], [192 * 512]) == "E-UB-FULL"
