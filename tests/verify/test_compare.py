"""Every element counts, whatever its type."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from evokernel.core.protocols import Array
from evokernel.verify.compare import Expected, Rule, numbers
from evokernel.verify.feedback import describe

floats = arrays(np.float32, array_shapes(max_dims=3, max_side=6), elements=st.floats(-1e6, 1e6, width=32))


def expected(data, dtype="float32", atol=1e-4, rtol=1e-4):
    return Expected(Array("out", dtype, np.asarray(data)), Rule(atol, rtol))


@given(floats)
def test_equal_is_right_and_so_is_nearly_equal(data):
    assert expected(data).difference(data.copy()) is None
    assert expected(data).difference((data * np.float32(1 + 5e-5)).astype(np.float32)) is None


@given(floats, st.data())
def test_one_element_off_is_found_and_located(data, draw):
    at = draw.draw(st.integers(0, data.size - 1))
    got = data.copy()
    rms = float(np.sqrt(np.square(data, dtype=np.float64).mean()))
    got.reshape(-1)[at] += np.float32(1e-2 * (rms + abs(float(got.reshape(-1)[at]))) + 1e-6)
    difference = expected(data).difference(got)
    assert difference is not None
    assert np.flatnonzero(difference.wrong).tolist() == [at]
    assert difference.reason == "mismatch"


@given(floats, st.sampled_from([np.nan, np.inf, -np.inf]), st.data())
def test_what_is_not_finite_must_be_where_the_reference_has_it(data, odd, draw):
    at = draw.draw(st.integers(0, data.size - 1))
    other = data.copy()
    other.reshape(-1)[at] = odd
    assert expected(other).difference(other.copy()) is None
    for want, got in ((data, other), (other, data)):
        difference = expected(want).difference(got)
        assert difference is not None
        assert difference.wrong.reshape(-1)[at]


def test_nan_and_unwritten_have_reasons_of_their_own():
    want = np.ones((4, 4), np.float32)
    poison = np.array(0x7FC12345, np.uint32)
    got = want.copy()
    got[1, 2] = np.nan
    assert expected(want).difference(got, poison).reason == "nan"
    got.view(np.uint32)[3, 3] = poison
    difference = expected(want).difference(got, poison)
    assert (difference.reason, difference.unwritten, difference.nan) == ("unwritten", 1, 1)


@given(arrays(np.int64, array_shapes(max_dims=2, max_side=5)), st.data())
def test_integers_are_compared_exactly(data, draw):
    at = draw.draw(st.integers(0, data.size - 1))
    got = data.copy()
    got.reshape(-1)[at] ^= 1
    assert expected(data, "int64").difference(data.copy()) is None
    assert expected(data, "int64", 1.0, 1.0).difference(got).wrong.sum() == 1


def test_a_bool_is_zero_or_one():
    want = np.array([True, False])
    assert expected(want, "bool").difference(want.copy()) is None
    got = np.array([1, 0x80], np.uint8).view(bool)
    assert expected(want, "bool").difference(got).wrong.tolist() == [False, True]


def test_bfloat16_is_compared_as_numbers():
    bits = np.array([0x3F80, 0x4000, 0x7F80], np.uint16)  # 1, 2, infinity
    assert numbers(bits, "bfloat16").tolist() == [1.0, 2.0, np.inf]
    near = np.array([0x3F81, 0x4000, 0x7F80], np.uint16)
    assert expected(bits, "bfloat16", 1e-2, 1e-2).difference(near) is None
    assert expected(bits, "bfloat16", 1e-4, 1e-4).difference(near) is not None


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floats(dtype):
    want = np.linspace(-1, 1, 9).astype(dtype)
    assert expected(want, dtype).difference(want.copy()) is None
    assert expected(want, dtype).difference(want[::-1].copy()).wrong.sum() == 8


def test_a_wrong_type_or_shape_is_our_own_mistake():
    with pytest.raises(ValueError, match="cannot be held against"):
        expected(np.ones(3, np.float32)).difference(np.ones(3, np.float64))


def test_feedback_says_where_and_what():
    want = np.arange(64, dtype=np.float32).reshape(8, 8) + 1
    got = want.copy()
    got[:, 6:] = 0
    text = describe(expected(want).difference(got), "small", "x [8, 8]")
    assert "16 of 64 elements (25.0%)" in text
    assert "[0:8, 6:8] of [8, 8]" in text
    assert "worst: [7, 7] expected 64, got 0" in text
    assert "end of dimension 1" in text
    assert text.count("expected") == 6  # the worst and five samples


def test_feedback_keeps_the_held_out_size_to_itself():
    want = np.arange(37 * 13, dtype=np.float32).reshape(37, 13) + 1
    got = want.copy()
    got[:, 12] = 0
    text = describe(expected(want).difference(got), "held_out", "x [37, 13]")
    assert "37" not in text.replace("got 0", "").split("worst")[0]
    assert "[" not in text
    assert "end of dimension 1" in text


def test_feedback_sees_whole_slices():
    want = np.ones((8, 8), np.float32)
    got = want.copy()
    got[3] = 5
    assert "whole slices along dimension 0" in describe(expected(want).difference(got), "small", "")
    assert "everything is wrong" in describe(expected(want).difference(want * 3), "small", "")
    assert "everything is wrong" not in describe(expected(want).difference(want * 3), "held_out", ""), "it was right at the small size"


def test_a_scalar_output_can_be_wrong_too():
    want = np.array(2.0, np.float32)
    assert "expected 2, got 3" in describe(expected(want).difference(np.array(3.0, np.float32)), "bench", "out []")


def test_a_few_elements_are_judged_without_the_others():
    wanted = np.arange(1, 9, dtype=np.float32)
    expected = Expected(Array("out", "float32", wanted), Rule(1e-2, 1e-2, unit=1.0))
    got = wanted.copy()
    got[5] = 0
    assert expected.holds_at(got, np.array([0, 1, 7]))
    assert not expected.holds_at(got, np.array([0, 5]))
    assert not Expected(Array("out", "float32", wanted), Rule(1e-2, 1e-2)).holds_at(wanted, np.array([0])), "depends on all of them"
