"""Internals that published kernels call: address registers, raw pointers, free local memory, and copies of slices."""

import numpy as np
import pytest
from vector_bench import HARDWARE, STRICT, Bench, numbers


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


def test_reader_that_does_not_wait_gets_old_values_at_level_hardware(bench: Bench) -> None:
    """The vector unit starts before the copy has arrived. After a barrier the new values are there."""
    x = numbers(256, "float32")
    assert bench.breaks("race_in", [x], [0, 0]) == "E-RACE"
    np.testing.assert_array_equal(bench.run("race_in", [x], [1, 0], "float32", 256), (x + 1) + x)
    np.testing.assert_array_equal(bench.run("race_in", [x], [0, 0], "float32", 256, level=HARDWARE), 8 + x)


def test_reader_that_starts_late_enough_gets_new_values(bench: Bench) -> None:
    x = numbers(256, "float32")
    assert bench.breaks("race_in", [x], [0, 200]) == "E-RACE"
    np.testing.assert_array_equal(bench.run("race_in", [x], [0, 200], "float32", 256, level=HARDWARE), (x + 1) + x)


def test_race_in_place_and_on_the_way_out_at_level_hardware(bench: Bench) -> None:
    x = numbers(256, "float32")
    assert bench.breaks("race_in_place", [x], []) == "E-RACE"
    np.testing.assert_array_equal(bench.run("race_in_place", [x], [], "float32", 256, level=HARDWARE), np.full(256, 8.0))
    assert bench.breaks("race_out", [x], []) == "E-RACE"
    np.testing.assert_array_equal(bench.run("race_out", [x], [], "float32", 256, level=HARDWARE), np.full(256, 7.0))


def test_copy_out_whose_source_is_overwritten_at_level_hardware(bench: Bench) -> None:
    """The copy reads its source from front to back, so each of the two writers changes what it has not read yet."""
    x = numbers(3072, "float32")
    assert bench.breaks("race_reused", [x, x, x], [0, 0, 0]) == "E-RACE"
    for level in (STRICT, HARDWARE):
        np.testing.assert_array_equal(bench.run("race_reused", [x, x, x], [1, 0, 0], "float32", 3072, level=level), 2 * x)
    got = bench.run("race_reused", [x, x, x], [0, 0, 0], "float32", 3072, level=HARDWARE)
    first, second = int(np.argmax(got == 700)), int(np.argmax(got == 701))
    assert 0 < first < second < 3072
    assert first % 8 == second % 8 == 0
    np.testing.assert_array_equal(got, np.concatenate([2 * x[:first], np.full(second - first, 700), np.full(3072 - second, 701)]))
    np.testing.assert_array_equal(bench.run("race_reused", [x, x, x], [0, 0, 2], "float32", 3072, level=HARDWARE), np.full(3072, 701))


def test_copy_out_that_has_read_its_source_keeps_it(bench: Bench) -> None:
    x = numbers(3072, "float32")
    assert bench.breaks("race_reused", [x, x, x], [0, 20, 0]) == "E-RACE"
    np.testing.assert_array_equal(bench.run("race_reused", [x, x, x], [0, 20, 0], "float32", 3072, level=HARDWARE), 2 * x)


def test_copy_in_to_the_source_of_a_copy_out_at_level_hardware(bench: Bench) -> None:
    """The first bytes of a copy in arrive after the memory latency."""
    x = numbers(6144, "float32")
    assert bench.breaks("race_loaded_again", [x, x], [0, 0, 0]) == "E-RACE"
    for level in (STRICT, HARDWARE):
        np.testing.assert_array_equal(bench.run("race_loaded_again", [x, x], [1, 0, 0], "float32", 3072, level=level), x[:3072])
    got = bench.run("race_loaded_again", [x, x], [0, 0, 0], "float32", 3072, level=HARDWARE)
    read = int(np.argmax(got != x[:3072]))
    assert 1536 < read < 3072
    np.testing.assert_array_equal(got, np.concatenate([x[:read], x[3072 + read :]]))
    np.testing.assert_array_equal(bench.run("race_loaded_again", [x, x], [0, 0, 2], "float32", 3072, level=HARDWARE), x[3072:])
    np.testing.assert_array_equal(bench.run("race_loaded_again", [x, x], [0, 5, 0], "float32", 3072, level=HARDWARE), x[:3072])


def test_copy_out_of_rows_whose_source_is_overwritten(bench: Bench) -> None:
    x = numbers(3072, "float32")
    got = bench.run("race_rows_reused", [x, x, x], [0, 0, 2], "float32", 256, level=HARDWARE).reshape(32, 8)
    expected = x[:256].reshape(32, 8).copy()
    expected[:16, :5], expected[16:, :5] = 8, 7  # every second block of the source is a row, and half of them is overwritten
    np.testing.assert_array_equal(got, expected)


def test_copy_out_does_not_undo_a_later_copy_to_the_same_place(bench: Bench) -> None:
    x = numbers(3072, "float32")
    got = bench.run("race_stored_again", [x, x, x], [0, 0, 2], "float32", 256, level=HARDWARE)
    np.testing.assert_array_equal(got, np.repeat(np.float32([8, 9]), 128))


def test_copy_out_that_adds_has_read_its_source(bench: Bench) -> None:
    x = numbers(3072, "float32")
    assert bench.breaks("race_added", [x, x, x], [0, 0, 2]) == "E-RACE"
    np.testing.assert_array_equal(bench.run("race_added", [x, x, x], [0, 0, 2], "float32", 256, level=HARDWARE), x[:256] + 7)
