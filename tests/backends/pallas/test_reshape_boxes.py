"""A box of a reshape, of padding or of a slice is read as a box of its operand."""

from math import prod
from random import Random

import numpy as np
import pytest

pytest.importorskip("jax")

from evokernel.backends.pallas.parts.lazy_arrays import AxisMap, HeldArray, MovedArray, split_box
from evokernel.backends.pallas.parts.program_parts import split_ranges
from evokernel.backends.pallas.parts.reshape_boxes import find_reshaped_box

SHAPES = (
    ((4, 6, 10), (4, 60)),
    ((4, 60), (4, 6, 10)),
    ((2, 3, 4, 5), (2, 1, 3, 20)),
    ((120,), (2, 3, 20)),
    ((2, 3, 20), (6, 20)),
    ((3, 8, 5), (1, 12, 10, 1)),
    ((1, 24), (24,)),
    ((6, 4), (4, 6)),
)


@pytest.mark.parametrize(("operand", "result"), SHAPES)
def test_box_of_a_reshape_has_the_elements_of_the_reshaped_array(operand: tuple[int, ...], result: tuple[int, ...]) -> None:
    data, random = np.arange(prod(operand)).reshape(operand), Random(0)
    moved = MovedArray([(HeldArray(data), None)], result, data.dtype)
    exact = 0
    for _ in range(200):
        box = tuple(tuple(sorted(random.sample(range(size + 1), 2))) for size in result)
        slices = tuple(slice(*bounds) for bounds in box)
        assert np.array_equal(moved.read_box(box), data.reshape(result)[slices])
        if (reshaped := find_reshaped_box(operand, result, box)) and reshaped.is_exact:
            exact += 1
            assert prod(last - first for first, last in reshaped.source) == data.reshape(result)[slices].size
    assert exact > 0


def test_box_much_larger_than_its_reshape_is_not_read() -> None:
    assert find_reshaped_box((1000,), (100, 10), ((0, 100), (3, 4))) is None


MAPS = (
    AxisMap((4, 5), (11, 7), offset=[-2, 1], divisor=[2, 1]),
    AxisMap((4, 5), (6, 16), offset=[3, -1], divisor=[3, 4]),
    AxisMap((9, 10), (4, 3), factor=[2, 3], offset=[1, 0]),
    AxisMap((9, 10), (3, 4), axes=[1, 0], factor=[2, 3], offset=[0, 1]),
    AxisMap((1, 6), (5, 6), factor=[0, 1]),
)
"""Zeros between and around elements, also cut off; strided slices, also transposed; a broadcast."""


@pytest.mark.parametrize("rule", MAPS)
def test_box_of_padding_or_of_a_strided_slice_has_the_same_elements(rule: AxisMap, monkeypatch: pytest.MonkeyPatch) -> None:
    data, random = np.arange(1, 1 + prod(rule.operand)).reshape(rule.operand), Random(0)
    moved = MovedArray([(HeldArray(data), rule)], rule.result, data.dtype, HeldArray(np.asarray(0)))
    boxes = [tuple(tuple(sorted(random.sample(range(size + 1), 2))) for size in rule.result) for _ in range(100)]
    expected = [np.concatenate([moved.read(flat) for _, flat in split_box(moved.shape, box)]) for box in boxes]
    monkeypatch.setattr(moved, "read", None)  # boxes are not read element by element
    assert [moved.read_box(box).reshape(-1).tolist() for box in boxes] == [values.tolist() for values in expected]


def test_elements_of_ranges_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evokernel.backends.pallas.parts.program_parts.CHUNK_ELEMENTS", 4)
    chunks = list(split_ranges([(3, 5), (7, 8), (20, 29)]))
    assert [chunk.size for chunk in chunks] == [4, 4, 4]
    assert np.concatenate(chunks).tolist() == [3, 4, 7, *range(20, 29)]
    assert list(split_ranges([])) == []
