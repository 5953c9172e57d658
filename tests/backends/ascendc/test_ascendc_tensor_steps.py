"""Steps that prepare an argument of a bound function give the values that PyTorch gives."""

import ctypes

import numpy as np
import pytest

from evokernel.backends.ascendc import loader
from evokernel.backends.ascendc.arguments import IS_COPY, IS_ON_HOST, Argument
from evokernel.backends.ascendc.call_arguments import CallArguments, axis_size, prepare_argument
from evokernel.backends.ascendc.tensor_steps import is_contiguous, make_step
from evokernel.core.backend import Arguments, Array
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


def test_every_call_has_fresh_copies_and_the_values_of_now() -> None:
    x = np.arange(4, dtype=np.float32)
    specifications = [
        ["copy", 0, ["reshape", 2, 2]],
        ["copies", 0, [0, ["cast", "float16"]]],
        ["host", 0],
        ["ints", ["size", ["tensor", 0], 0], 7],
    ]
    arguments = CallArguments(specifications, Arguments((Array("x", "float32", x),), (), ()))
    for values in ([0, 1, 2, 3], [5, 6, 7, 8]):
        x[:] = values
        copy, copies, host, sizes = arguments.resolve()
        first, second = (Argument * 2).from_address(copies.data)
        numbers = (ctypes.c_float * 4).from_address(copy.data)
        assert [*numbers] == [*(ctypes.c_float * 4).from_address(first.data)] == values
        assert np.frombuffer((ctypes.c_uint8 * 8).from_address(second.data), np.float16).tolist() == values
        assert (copy.flags, first.flags, second.flags, host.flags) == (IS_COPY, IS_COPY, IS_COPY, IS_ON_HOST)
        assert (copy.rank, [*copy.dims[:2]], host.data) == (2, [2, 2], x.ctypes.data)
        assert [*(ctypes.c_int64 * 2).from_address(sizes.data)] == [4, 7]
        numbers[0] = -1  # the operator works in place
        assert x.tolist() == values


def test_copied_bytes_count_copies_and_changed_elements() -> None:
    def copied_bytes(*specifications: list[object]) -> int:
        return CallArguments(specifications, Arguments(ARRAYS, (), ())).copied_bytes()

    assert copied_bytes(["tensor", 0], ["host", 0, ["reshape", -1]], ["tensors", 0], ["int", 3], ["absent"]) == 0
    assert copied_bytes(["copy", 0]) == copied_bytes(["tensor", 0, ["cast", "float16"]]) == X.nbytes
    assert copied_bytes(["copies", 0, [0, ["reshape", -1]]], ["tensors", 0, [0, ["transpose", 0, 1]]]) == 3 * X.nbytes


def test_call_in_parts_may_not_copy_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = loader.AscendcKernel.__new__(loader.AscendcKernel)
    kernel.plan = {"function": "f", "call": [["copy", 0]]}
    monkeypatch.setattr(loader, "MAX_PART_BYTES", 2 * X.nbytes - 1)
    with pytest.raises(CandidateError, match="the call copies"):
        kernel.bind_parts(Arguments(ARRAYS, (), ()))
