"""Comparison checks every element of every type, and feedback describes the difference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from evokernel.core.backend import Array
from evokernel.core.numeric_contract import ToleranceRule
from evokernel.verifier.compare import ExpectedOutput, decode_values
from evokernel.verifier.feedback import describe_difference

floats = arrays(np.float32, array_shapes(max_dims=3, max_side=6), elements=st.floats(-1e6, 1e6, width=32))


def make_expected(data, dtype="float32", atol=1e-4, rtol=1e-4):
    return ExpectedOutput(Array("out", dtype, np.asarray(data)), ToleranceRule(atol, rtol))


@given(floats)
def test_equal_and_nearly_equal_values_are_correct(data):
    assert make_expected(data).find_difference(data.copy()) is None
    assert make_expected(data).find_difference((data * np.float32(1 + 5e-5)).astype(np.float32)) is None


@given(floats, st.data())
def test_one_wrong_element_is_located(data, draw):
    at = draw.draw(st.integers(0, data.size - 1))
    actual = data.copy()
    rms = float(np.sqrt(np.square(data, dtype=np.float64).mean()))
    actual.reshape(-1)[at] += np.float32(1e-2 * (rms + abs(float(actual.reshape(-1)[at]))) + 1e-6)
    difference = make_expected(data).find_difference(actual)
    assert difference is not None
    assert np.flatnonzero(difference.wrong_mask).tolist() == [at]
    assert difference.reason == "mismatch"


@given(floats, st.sampled_from([np.nan, np.inf, -np.inf]), st.data())
def test_nonfinite_values_must_match_the_reference(data, nonfinite, draw):
    at = draw.draw(st.integers(0, data.size - 1))
    other = data.copy()
    other.reshape(-1)[at] = nonfinite
    assert make_expected(other).find_difference(other.copy()) is None
    for target, actual in ((data, other), (other, data)):
        difference = make_expected(target).find_difference(actual)
        assert difference is not None
        assert difference.wrong_mask.reshape(-1)[at]


def test_nan_and_unwritten_elements_have_their_own_reasons():
    target = np.ones((4, 4), np.float32)
    poison = np.array(0x7FC12345, np.uint32)
    actual = target.copy()
    actual[1, 2] = np.nan
    assert make_expected(target).find_difference(actual, poison).reason == "nan"
    actual.view(np.uint32)[3, 3] = poison
    difference = make_expected(target).find_difference(actual, poison)
    assert (difference.reason, difference.unwritten_count, difference.nan_count) == ("unwritten", 1, 1)


@given(arrays(np.int64, array_shapes(max_dims=2, max_side=5)), st.data())
def test_integers_are_compared_exactly(data, draw):
    at = draw.draw(st.integers(0, data.size - 1))
    actual = data.copy()
    actual.reshape(-1)[at] ^= 1
    assert make_expected(data, "int64").find_difference(data.copy()) is None
    assert make_expected(data, "int64", 1.0, 1.0).find_difference(actual).wrong_mask.sum() == 1


def test_bool_is_zero_or_one():
    target = np.array([True, False])
    assert make_expected(target, "bool").find_difference(target.copy()) is None
    actual = np.array([1, 0x80], np.uint8).view(bool)
    assert make_expected(target, "bool").find_difference(actual).wrong_mask.tolist() == [False, True]


def test_bfloat16_is_compared_as_numbers():
    bits = np.array([0x3F80, 0x4000, 0x7F80], np.uint16)  # 1, 2, infinity
    assert decode_values(bits, "bfloat16").tolist() == [1.0, 2.0, np.inf]
    nearby = np.array([0x3F81, 0x4000, 0x7F80], np.uint16)
    assert make_expected(bits, "bfloat16", 1e-2, 1e-2).find_difference(nearby) is None
    assert make_expected(bits, "bfloat16", 1e-4, 1e-4).find_difference(nearby) is not None


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_float16_and_float64_are_compared(dtype):
    target = np.linspace(-1, 1, 9).astype(dtype)
    assert make_expected(target, dtype).find_difference(target.copy()) is None
    assert make_expected(target, dtype).find_difference(target[::-1].copy()).wrong_mask.sum() == 8


def test_complex_numbers_are_compared_by_their_distance():
    data = np.array([3 + 4j, 0.5 - 1j, complex(np.nan, 0)], np.complex64)
    expected = make_expected(data, "complex64")
    assert expected.find_difference(data * np.complex64(1 + 5e-5j)) is None
    difference = expected.find_difference(data.conj())
    assert difference is not None
    assert difference.wrong_mask.tolist() == [True, True, False]
    assert "expected 3+4j, got 3-4j" in describe_difference(difference, "bench", "x [3]", "own")
    missing = np.array([3 + 4j, complex(0.5, np.nan), complex(np.nan, 0)], np.complex64)
    assert expected.find_difference(missing).reason == "nan"


def test_wrong_type_or_shape_raises_value_error():
    with pytest.raises(ValueError, match="cannot be compared with"):
        make_expected(np.ones(3, np.float32)).find_difference(np.ones(3, np.float64))


def test_feedback_describes_location_and_values():
    target = np.arange(64, dtype=np.float32).reshape(8, 8) + 1
    actual = target.copy()
    actual[:, 6:] = 0
    text = describe_difference(make_expected(target).find_difference(actual), "small", "x [8, 8]")
    assert "16 of 64 elements (25.0%)" in text
    assert "[0:8, 6:8] of shape [8, 8]" in text
    assert "worst: [7, 7] expected 64, got 0" in text
    assert "end of dimension 1" in text
    assert text.count("expected") == 6  # the worst and five samples


def test_feedback_hides_the_held_out_size():
    target = np.arange(37 * 13, dtype=np.float32).reshape(37, 13) + 1
    actual = target.copy()
    actual[:, 12] = 0
    text = describe_difference(make_expected(target).find_difference(actual), "held_out", "x [37, 13]")
    assert "37" not in text.replace("got 0", "").split("worst")[0]
    assert "[" not in text
    assert "end of dimension 1" in text


def test_feedback_recognizes_wrong_slices():
    target = np.ones((8, 8), np.float32)
    actual = target.copy()
    actual[3] = 5
    assert "entire slices along dimension 0" in describe_difference(make_expected(target).find_difference(actual), "small", "")
    assert "every element is wrong" in describe_difference(make_expected(target).find_difference(target * 3), "small", "")
    assert "every element is wrong" not in describe_difference(make_expected(target).find_difference(target * 3), "held_out", ""), (
        "the small size was correct"
    )


def test_wrong_scalar_output_is_described():
    target = np.array(2.0, np.float32)
    assert "expected 2, got 3" in describe_difference(make_expected(target).find_difference(np.array(3.0, np.float32)), "bench", "out []")


def test_few_elements_are_checked_without_the_others():
    target = np.arange(1, 9, dtype=np.float32)
    expected = ExpectedOutput(Array("out", "float32", target), ToleranceRule(1e-2, 1e-2, atol_unit=1.0))
    actual = target.copy()
    actual[5] = 0
    assert expected.is_correct_at(actual, np.array([0, 1, 7]))
    assert not expected.is_correct_at(actual, np.array([0, 5]))
    assert not ExpectedOutput(Array("out", "float32", target), ToleranceRule(1e-2, 1e-2)).is_correct_at(target, np.array([0])), (
        "depends on all of them"
    )
