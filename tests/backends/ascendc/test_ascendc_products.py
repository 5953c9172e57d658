"""The arithmetic of the cube: rows and columns of zeros are left out, and the result is the same."""

import ctypes

import numpy as np
import pytest

from evokernel.backends.ascendc.build import ensure_runtime_library
from evokernel.backends.native.toolchain import find_compiler, missing_compiler_message

pytestmark = pytest.mark.skipif(missing_compiler_message("") is not None, reason="no C++ compiler")
MULTIPLY = "_ZN9simulator8multiplyEPKfS1_Pflll"
PANEL = 16
M, N, K = 16, 80, 24


def multiply(left, right):
    library = ctypes.CDLL(str(ensure_runtime_library(find_compiler(""))))
    panels = np.ascontiguousarray(right.reshape(K, N // PANEL, PANEL).transpose(1, 0, 2))
    result = np.ones((M, N), np.float32)
    arrays = (ctypes.c_void_p(array.ctypes.data) for array in (left, panels, result))
    getattr(library, MULTIPLY)(*arrays, *(ctypes.c_int64(size) for size in (M, N, K)))
    return result - 1


@pytest.mark.parametrize("zero_rows", [[], range(4), range(4, 16), range(16), [5]])
@pytest.mark.parametrize("zero_columns", [[], range(16, 48), range(80), [3]])
def test_product_with_zeros(zero_rows, zero_columns):
    random = np.random.default_rng(1)
    left, right = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((M, K), (K, N)))
    left[list(zero_rows)] = 0
    right[:, list(zero_columns)] = 0
    assert np.array_equal(multiply(left, right), left @ right)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_zeros_times_infinity_are_not_left_out(value):
    left, right = np.zeros((M, K), np.float32), np.ones((K, N), np.float32)
    left[0], right[3, 20] = 1, value
    with np.errstate(invalid="ignore"):
        assert np.array_equal(np.isnan(multiply(left, right)), np.isnan(left @ right))
        turned = np.zeros((M, K), np.float32), np.zeros((K, N), np.float32)
        turned[0][5, 3] = value
        assert np.isnan(multiply(*turned)[5]).all()
