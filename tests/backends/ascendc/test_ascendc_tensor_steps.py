"""Steps that prepare an argument of a bound function give the values that PyTorch gives."""

import numpy as np
import pytest

from evokernel.backends.ascendc.loader import axis_size, prepare_argument
from evokernel.backends.ascendc.tensor_steps import is_contiguous, make_step
from evokernel.core.backend import Array
from evokernel.core.errors import CandidateError

X = np.arange(24, dtype=np.float32).reshape(2, 1, 12)
ARRAYS = (Array("x", "float32", X),)


def prepared(*steps: tuple[object, ...]) -> Array:
    array = prepare_argument(["tensor", 0, *steps], ARRAYS)
    assert array is not None
    return array


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        ([("reshape", 4, -1)], X.reshape(4, 6)),
        ([("reshape", ["size", ["tensor", 0], 2], -1)], X.reshape(12, 2)),
        ([("permute", 2, 0, 1)], X.transpose(2, 0, 1)),
        ([("transpose", 0, -1), ("contiguous",)], X.swapaxes(0, 2)),
        ([("flatten", 1, -1)], X.reshape(2, 12)),
        ([("squeeze",)], X.reshape(2, 12)),
        ([("squeeze", 0)], X),
        ([("unsqueeze", -1), ("cast", "float16")], X.astype(np.float16)[..., None]),
    ],
)
def test_steps_equal_numpy(steps: list[tuple[object, ...]], wanted: np.ndarray) -> None:
    array = prepared(*steps)
    np.testing.assert_array_equal(array.data, wanted)
    assert array.data.flags.c_contiguous
    assert (array.data.dtype, array.dtype) == (wanted.dtype, str(wanted.dtype))


def test_argument_without_steps_stays_the_verifiers_memory() -> None:
    assert prepare_argument(["tensor", 0], ARRAYS) is None
    assert prepare_argument(["int", 3], ARRAYS) is None
    assert np.shares_memory(prepared(("reshape", -1)).data, X)


def test_sizes_are_those_of_the_prepared_tensor() -> None:
    assert axis_size(["size", ["tensor", 0], -1], ARRAYS) == 12
    assert axis_size(["size", ["tensor", 0, ["reshape", 4, -1]], 1], ARRAYS) == 6


def test_impossible_shape_is_the_candidates_error() -> None:
    with pytest.raises(CandidateError, match="cannot prepare x of shape"):
        prepared(("reshape", 5, 5))


def test_order_of_axes_needs_contiguous() -> None:
    assert is_contiguous([("reshape", 4)])
    assert not is_contiguous([("contiguous",), ("permute", 1, 0)])
    assert make_step("t", []) == ("transpose", 0, 1)
    assert make_step("permute", []) is None
