"""Compares the simulator's library functions, Matmul, cube and cross-core flags with numpy."""

from __future__ import annotations

import math
import re
import struct
import tomllib

import numpy as np
import pytest
from library_kernels import Broken, cycles, launch

from evokernel.backends.ascendc.build import SIMULATOR_FOLDER

ROOM = 20 * 1024
SOURCES = ("library.h", "activation.h", "mathematics.h", "softmax.h", "normalise.h", "reductions.h", "arrange.h", "quantise.h")
SOURCES += ("matmul.h", "matmul_work.h", "matrices.h", "cube.h", "cube_products.h", "cross.h", "cross.cpp")
RNG = np.random.default_rng(7)


def on_vector(kernel: str, x: np.ndarray, count: int, mode: int = 0, scalar: float = 0.0) -> np.ndarray:
    y = np.zeros_like(x)
    launch(kernel, [x.copy(), y], struct.pack("<IIIf", count, x.size, mode, scalar))
    return y


def on_rows(
    kernel: str,
    *inputs: np.ndarray,
    shape: tuple[int, int, int],
    mode: int = 0,
    scalar: float = 0.0,
    more: tuple[int, int] = (0, 0),
    scratch: int = 0,
):
    """Runs a kernel on up to three inputs and gives back its three outputs, as bytes to be viewed."""
    arrays = [np.zeros(ROOM, np.uint8) for _ in range(6)]
    for room, given in zip(arrays, inputs, strict=False):
        room[: given.nbytes] = np.ascontiguousarray(given).view(np.uint8).reshape(-1)
    rows, stride, width = shape
    launch(kernel, arrays, struct.pack("<IIIIfIII", rows, stride, width, mode, scalar, *more, scratch))
    return arrays[3:]


def matrix(room: np.ndarray, rows: int, stride: int, width: int, dtype: type = np.float32) -> np.ndarray:
    return room.view(dtype)[: rows * stride].reshape(rows, stride)[:, :width]


def padded(x: np.ndarray, stride: int) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, stride - x.shape[1])), constant_values=9)


def numbers(rows: int, width: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal((rows, width)).astype(dtype)


def fast_gelu2(x: np.ndarray) -> np.ndarray:
    start = np.minimum(np.abs(0.7071 * x), 1.769) - 1.769
    return x * (np.sign(x + 1e-12) * (-0.1444 * start**2 + 0.5) + 0.5)


def over(f, low: float = -2, high: float = 2):
    return f, low, high


FUNCTIONS = {
    "Tanh": over(np.tanh),
    "Sigmoid": over(lambda x: 1 / (1 + np.exp(-x))),
    "Erf": over(np.vectorize(math.erf)),
    "Erfc": over(np.vectorize(math.erfc)),
    "Log2": over(np.log2, 0.1, 9),
    "Sin": over(np.sin, -9, 9),
    "Cos": over(np.cos, -9, 9),
    "Tan": over(np.tan, -1, 1),
    "Asin": over(np.arcsin, -1, 1),
    "Acos": over(np.arccos, -1, 1),
    "Atan": over(np.arctan),
    "Sinh": over(np.sinh),
    "Cosh": over(np.cosh),
    "Asinh": over(np.arcsinh),
    "Acosh": over(np.arccosh, 1, 9),
    "Atanh": over(np.arctanh, -0.9, 0.9),
    "Frac": over(lambda x: x - np.trunc(x), -5, 5),
    "Sign": over(np.sign),
    "Trunc": over(np.trunc, -5, 5),
}
SOME_FORMS = {
    "Ceil": over(np.ceil, -5, 5),
    "Floor": over(np.floor, -5, 5),
    "Round": over(np.rint, -5, 5),
    "Lgamma": over(np.vectorize(math.lgamma), 0.5, 9),
    "Gelu": over(lambda x: x / (1 + np.exp(-1.5957691216 * (x + 0.044715 * x**3)))),
    "FasterGelu": over(lambda x: x / (1 + np.exp(-1.702 * x))),
    "FasterGeluV2": over(fast_gelu2),
}


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_overloads_of_a_library_function(name):
    f, low, high = FUNCTIONS[name]
    x = RNG.uniform(low, high, 512).astype(np.float32)
    wanted = f(x.astype(np.float64))
    for mode, count in ((0, 333), (1, 333), (2, 512), (3, 512)):
        y = on_vector(f"{name}_float", x, count, mode)
        np.testing.assert_allclose(y[:count], wanted[:count], rtol=2e-5, atol=2e-6)
        assert not y[count:].any(), "nothing beyond the count is touched"
    half = x.astype(np.float16)
    np.testing.assert_allclose(
        on_vector(f"{name}_half", half, 333)[:333].astype(float), f(half.astype(np.float64))[:333], rtol=2e-3, atol=2e-3
    )


@pytest.mark.parametrize("name", SOME_FORMS)
def test_a_function_with_a_count(name):
    f, low, high = SOME_FORMS[name]
    x = RNG.uniform(low, high, 256).astype(np.float32)
    for mode in (0, 1):
        np.testing.assert_allclose(on_vector(f"{name}_float", x, 200, mode)[:200], f(x.astype(np.float64))[:200], rtol=2e-5, atol=2e-5)


def test_logarithms_silu_swish_and_digamma():
    x = RNG.uniform(0.5, 5, 256).astype(np.float32)
    np.testing.assert_allclose(on_vector("Log_float", x, 256), np.log(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(on_vector("Log10_float", x, 256), np.log10(x), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(on_vector("Silu_float", x, 256), x / (1 + np.exp(-x)), rtol=1e-5)
    np.testing.assert_allclose(on_vector("Swish_float", x, 256, scalar=1.5), x / (1 + np.exp(-1.5 * x)), rtol=1e-5)
    step = on_vector("Digamma_float", x + 1, 256) - on_vector("Digamma_float", x, 256)
    np.testing.assert_allclose(step, 1 / x, rtol=1e-4, atol=1e-5)  # digamma(x + 1) = digamma(x) + 1 / x


def test_functions_of_two_tensors():
    a, b = numbers(1, 100), numbers(1, 100)
    one = {"shape": (1, 104, 100)}
    first, second, third = (matrix(room, 1, 104, 100) for room in on_rows("gates", a, b, scalar=2.0, **one))
    np.testing.assert_allclose(first, a * b / (1 + np.exp(-1.59576912 * (b + 0.044715 * b**3))), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(second, a * np.maximum(b, 0), rtol=1e-6)
    np.testing.assert_allclose(third, a * b / (1 + np.exp(-2 * b)), rtol=1e-4, atol=1e-6)
    first, second, third = (matrix(room, 1, 104, 100) for room in on_rows("limits", a, b, scalar=0.25, **one))
    np.testing.assert_array_equal(first, np.minimum(a, np.float32(0.25)))
    np.testing.assert_array_equal(second, np.maximum(a, np.float32(0.25)))
    np.testing.assert_allclose(third, np.fmod(a, b), rtol=1e-5, atol=1e-6)
    first, second, _ = (matrix(room, 1, 104, 100) for room in on_rows("exp_terms", a, b, **one))
    np.testing.assert_allclose(first, np.exp(a), rtol=1e-5)
    np.testing.assert_allclose(second, np.hypot(a, b), rtol=1e-5)
    p, q = RNG.integers(-9999, 9999, 64).astype(np.int16), RNG.integers(-9999, 9999, 64).astype(np.int16)
    np.testing.assert_array_equal(on_rows("bits", p, q, shape=(1, 64, 64))[0].view(np.int16)[:64], p ^ q)


def test_powers_of_tensors_and_scalars():
    a, b = np.abs(numbers(1, 90)) + 0.1, numbers(1, 90)
    for mode, wanted in ((0, a**b), (1, a**1.5), (2, 1.5**a)):
        got = on_rows("powers", a.astype(np.float32), b, shape=(1, 96, 90), mode=mode, scalar=1.5)[0]
        np.testing.assert_allclose(matrix(got, 1, 96, 90), wanted, rtol=1e-4)
    base, exponent = RNG.integers(-3, 4, 64).astype(np.int32), RNG.integers(0, 9, 64).astype(np.int32)
    np.testing.assert_array_equal(on_rows("powers_int", base, exponent, shape=(1, 64, 64))[0].view(np.int32)[:64], base**exponent)


@pytest.mark.parametrize(("rows", "stride", "width"), [(5, 40, 40), (7, 72, 66)])
def test_softmax_with_padded_rows(rows, stride, width):
    x = numbers(rows, width)
    e = np.exp(x - x.max(1, keepdims=True))
    for mode in (0, 1):
        out, sums, maxima = on_rows("soft_max", padded(x, stride), shape=(rows, stride, width), mode=mode)
        np.testing.assert_allclose(matrix(out, rows, stride, width), e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)
        if mode == 0:
            np.testing.assert_allclose(matrix(sums, rows, 8, 8), np.repeat(e.sum(1, keepdims=True), 8, 1), rtol=1e-5)
            np.testing.assert_array_equal(matrix(maxima, rows, 8, 8), np.repeat(x.max(1, keepdims=True), 8, 1))
    half = padded(x, stride + 8).astype(np.float16)
    out, _, maxima = on_rows("soft_max_half", half, shape=(rows, stride + 8, width))
    np.testing.assert_allclose(matrix(out, rows, stride + 8, width, np.float16).astype(float), e / e.sum(1, keepdims=True), atol=2e-3)
    assert matrix(maxima, rows, 8, 1)[0, 0] == half[0, :width].max()


def test_softmax_in_two_pieces_is_softmax():
    rows, width = 6, 48
    x = numbers(rows, 2 * width)
    first, second = x[:, :width], x[:, width:]
    shape = (rows, width, width)
    p1, sum1, max1 = on_rows("flash_first", first, shape=shape)
    p2, factor, sum2 = on_rows("flash", second, sum1.view(np.float32)[: rows * 8], max1.view(np.float32)[: rows * 8], shape=shape)
    scale = matrix(factor, rows, 8, 1)
    whole = np.concatenate([matrix(p1, rows, width, width) * scale, matrix(p2, rows, width, width)], 1) / matrix(sum2, rows, 8, 1)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(whole, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def test_parts_of_softmax():
    rows, width = 4, 32
    x, grad = numbers(rows, width), numbers(rows, width)
    shape = (rows, width, width)
    e = np.exp(x - x.max(1, keepdims=True))
    soft = e / e.sum(1, keepdims=True)
    blocks = [np.repeat(v, 8, 1).astype(np.float32) for v in (e.sum(1, keepdims=True), x.max(1, keepdims=True))]
    np.testing.assert_allclose(matrix(on_rows("simple_soft_max", x, *blocks, shape=shape)[0], rows, width, width), soft, rtol=1e-5)
    inner = (grad * soft).sum(1, keepdims=True)
    back = matrix(on_rows("soft_max_grad", grad, soft.astype(np.float32), shape=shape)[0], rows, width, width)
    np.testing.assert_allclose(back, (grad - inner) * soft, rtol=1e-4, atol=1e-6)
    front = matrix(on_rows("soft_max_grad", grad, soft.astype(np.float32), shape=shape, mode=1)[0], rows, 8, 8)
    np.testing.assert_allclose(front, np.repeat(inner, 8, 1), rtol=1e-4, atol=1e-6)
    logs = matrix(on_rows("log_soft_max", x, shape=shape)[0], rows, width, width)
    np.testing.assert_allclose(logs, np.log10(soft), rtol=1e-4)  # CANN's logarithm here is the one to base 10


def test_gradients_of_a_layer_norm():
    import torch

    rows, width, epsilon = 5, 48, 1e-3
    x, dy, gamma = numbers(rows, width), numbers(rows, width), numbers(1, width)[0]
    whole = [torch.from_numpy(one).requires_grad_() for one in (x, gamma, np.zeros_like(gamma))]
    torch.nn.functional.layer_norm(whole[0], (width,), whole[1], whole[2], epsilon).backward(torch.from_numpy(dy))
    numbers_of_rows = np.zeros(256, np.float32)
    numbers_of_rows[:width], numbers_of_rows[64 : 64 + rows], numbers_of_rows[128 : 128 + rows] = gamma, x.mean(1), x.var(1)
    shape = (rows, width, width)
    dx, normalised, _ = on_rows("layer_norm_grad", dy, x, numbers_of_rows, shape=shape, scalar=epsilon)
    np.testing.assert_allclose(matrix(dx, *shape), whole[0].grad, rtol=1e-4, atol=1e-5)
    dgamma, dbeta, _ = on_rows("layer_norm_grad_beta", matrix(normalised, *shape), dy, shape=shape)
    np.testing.assert_allclose(matrix(dgamma, 1, width, width)[0], whole[1].grad, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(matrix(dbeta, 1, width, width)[0], whole[2].grad, rtol=1e-4, atol=1e-5)


def test_normalisations_of_rows():
    rows, stride, width = 5, 48, 45
    x, gamma, beta = numbers(rows, width), numbers(1, stride), numbers(1, stride)
    mean, var = x.mean(1), x.var(1)
    wanted = (x - mean[:, None]) / np.sqrt(var[:, None] + 1e-3) * gamma[:, :width] + beta[:, :width]
    out, means, variances = on_rows("layer_norm", padded(x, stride), gamma, beta, shape=(rows, stride, width), scalar=1e-3)
    np.testing.assert_allclose(matrix(out, rows, stride, width), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(means.view(np.float32)[:rows], mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variances.view(np.float32)[:rows], var, rtol=1e-4)
    out, _, rstd = on_rows("layer_norm_rstd", padded(x, stride), gamma, beta, shape=(rows, stride, width), scalar=1e-3)
    np.testing.assert_allclose(matrix(out, rows, stride, width), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rstd.view(np.float32)[:rows], 1 / np.sqrt(var + 1e-3), rtol=1e-4)
    half, weight = numbers(rows, stride, np.float16), numbers(1, stride, np.float16)
    out = matrix(on_rows("rms_norm", half, weight, shape=(rows, stride, stride), scalar=1e-3)[0], rows, stride, stride, np.float16)
    wide = half.astype(np.float32)
    np.testing.assert_allclose(
        out.astype(float), wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-3) * weight.astype(float), rtol=4e-3, atol=4e-3
    )


def test_normalisations_over_groups_and_batches():
    n, c, pixels, groups = 2, 6, 16, 3
    x, gamma, beta = RNG.standard_normal((n, c, pixels)).astype(np.float32), numbers(1, 8), numbers(1, 8)
    grouped = x.reshape(n, groups, -1)
    norm = ((grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 1e-3)).reshape(x.shape)
    wanted = norm * gamma[0, :c, None] + beta[0, :c, None]
    out, means, _ = on_rows("group_norm", x, gamma, beta, shape=(n, pixels, pixels), scalar=1e-3, more=(c, groups))
    np.testing.assert_allclose(out.view(np.float32)[: x.size].reshape(x.shape), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(means.view(np.float32)[: n * groups], grouped.mean(2).reshape(-1), rtol=1e-3, atol=1e-6)
    batch = numbers(6, 40)
    wanted = (batch - batch.mean(0)) / np.sqrt(batch.var(0) + 1e-3) * gamma[0, :6, None] + beta[0, :6, None]
    out, _, variances = on_rows("batch_norm", batch, gamma, beta, shape=(6, 40, 40), scalar=1e-3)
    np.testing.assert_allclose(matrix(out, 6, 40, 40), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(variances.view(np.float32)[:40], batch.var(0), rtol=1e-4)


def test_mean_and_variance_in_pieces():
    x = numbers(5, 24)
    _, _, found = on_rows("in_pieces", x, shape=(5, 24, 24))
    np.testing.assert_allclose(found.view(np.float32)[[0, 8]], [x.mean(), x.var()], rtol=1e-4, atol=1e-6)


def test_reductions_and_running_sums():
    rows, stride, width = 6, 32, 29
    x = RNG.uniform(0.5, 1.5, (rows, width)).astype(np.float32)
    sums, means, _ = on_rows("sum_rows", padded(x, stride), shape=(rows, stride, width))
    np.testing.assert_allclose(sums.view(np.float32)[:rows], x.sum(1), rtol=1e-5)
    np.testing.assert_allclose(means.view(np.float32)[:rows], x.mean(1), rtol=1e-5)
    for kernel, axis, count in (("reduce_rows", 1, rows), ("reduce_columns", 0, width)):
        for mode, last in ((0, x.max(axis)), (1, x.mean(axis))):
            got = [room.view(np.float32)[:count] for room in on_rows(kernel, padded(x, stride), shape=(rows, stride, width), mode=mode)]
            for one, wanted in zip(got, (x.sum(axis), x.prod(axis), last), strict=True):
                np.testing.assert_allclose(one, wanted, rtol=1e-4)
    y = numbers(rows, stride)
    along = matrix(on_rows("running_sums", y, shape=(rows, stride, stride))[0], rows, stride, stride)
    np.testing.assert_allclose(along, y.cumsum(1), rtol=1e-4, atol=1e-5)
    down, last, _ = on_rows("running_sums", y, shape=(rows, stride, stride), mode=1)
    np.testing.assert_allclose(matrix(down, rows, stride, stride), y.cumsum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last.view(np.float32)[:stride], y.sum(0), rtol=1e-4, atol=1e-5)


def test_data_movement_and_selection():
    rows, stride = 4, 32
    x = numbers(rows, stride)
    column, row = numbers(rows, 1), numbers(1, stride)
    shape = (rows, stride, stride)
    np.testing.assert_array_equal(matrix(on_rows("repeat", column, shape=shape)[0], rows, stride, stride), np.repeat(column, stride, 1))
    np.testing.assert_array_equal(matrix(on_rows("repeat", row, shape=shape, mode=1)[0], rows, stride, stride), np.repeat(row, rows, 0))
    mask = RNG.integers(0, 2, (rows, stride)).astype(np.uint8)
    tensor, scalar, _ = on_rows("select_bytes", x, mask, shape=shape, scalar=-1.0, more=(stride, 0))
    np.testing.assert_array_equal(matrix(tensor, rows, stride, stride), np.where(mask, np.float32(-1), x))
    np.testing.assert_array_equal(matrix(scalar, rows, stride, stride), np.where(mask, x, np.float32(-1)))
    for given, width in ((mask, stride), (np.packbits(mask, 1, bitorder="little"), stride // 8)):
        kept = on_rows("drop", x, given, shape=shape, scalar=0.5, more=(width, 0))[0]
        np.testing.assert_allclose(matrix(kept, rows, stride, stride), np.where(mask, x * 2, 0))
    np.testing.assert_allclose(on_rows("progression", shape=(1, 24, 24), scalar=3.0)[0].view(np.float32)[:24], 3 + 0.5 * np.arange(24))
    wide = matrix(on_rows("pad_rows", padded(x[:, :29], 32), shape=(rows, 32, 29), more=(1, 2))[0], rows, 32, 32)
    np.testing.assert_array_equal(wide, np.pad(x[:, :29], ((0, 0), (1, 2)), constant_values=-7))
    thin = on_rows("unpad_rows", x, shape=shape, more=(0, 3))[0].view(np.float32)[: rows * 29].reshape(rows, 29)
    np.testing.assert_array_equal(thin, x[:, :29])


def test_topk_values_and_indices():
    x = numbers(3, 64)
    for mode, order in ((0, np.argsort(-x[:, :50], 1)), (1, np.argsort(x[:, :50], 1))):
        values, indices, _ = on_rows("largest", x, shape=(3, 64, 50), mode=mode, more=(5, 0))
        np.testing.assert_array_equal(matrix(indices, 3, 8, 5, np.int32), order[:, :5])
        np.testing.assert_array_equal(matrix(values, 3, 8, 5), np.take_along_axis(x, order[:, :5], 1))


def test_quantisation_round_trip():
    x = numbers(2, 32) * 40
    got = on_rows("quantise", x, shape=(2, 32, 32), scalar=1.5)[0].view(np.int8)[:64].reshape(2, 32)
    np.testing.assert_array_equal(got, np.clip(np.rint(x * np.float32(1.5) + 3), -128, 127).astype(np.int8))
    counts, scales = RNG.integers(-1000, 1000, (3, 24)).astype(np.int32), numbers(1, 24)
    back = matrix(on_rows("dequantise", counts, scales, shape=(3, 24, 20))[0], 3, 24, 20)
    np.testing.assert_allclose(back, (counts * scales)[:, :20], rtol=1e-6)


BROKEN = {
    "silu_in_place": ("E-LIB-OVERLAP", 0, 0),
    "overlapping": ("E-LIB-OVERLAP", 0, 0),
    "no_scratch": ("E-LIB-TMP", 0, 0),
    "short_scratch": ("E-LIB-TMP", 0, 512),
    "tanh_of_int": ("E-DTYPE", 0, 0),
    "full_unified_buffer": ("E-LIB-TMP", 196608 - 6 * ROOM - 32 * 1024 - 512, 0),
}


@pytest.mark.parametrize("kernel", BROKEN)
def test_violation_is_named(kernel):
    code, first, scratch = BROKEN[kernel]
    with pytest.raises(Broken) as caught:
        on_rows(kernel, numbers(1, 64), shape=(1, 64, 64), more=(first, 0), scratch=scratch)
    assert caught.value.code == code


def test_rows_must_start_at_complete_blocks():
    with pytest.raises(Broken, match="E-LIB-ALIGN"):
        on_rows("soft_max", numbers(2, 30), shape=(2, 30, 30))
    with pytest.raises(Broken, match="E-LIB-ALIGN"):
        on_rows("layer_norm", numbers(2, 30), shape=(2, 30, 30))


def test_a_longer_vector_and_a_harder_function_take_longer():
    x = RNG.uniform(-1, 1, 4096).astype(np.float32)
    took = {}
    for name, count in (("Tanh", 1024), ("Tanh", 4096), ("Erf", 4096), ("Floor", 4096)):
        on_vector(f"{name}_float", x, count)
        took[name, count] = cycles()
    assert took["Floor", 4096] < took["Tanh", 4096] < took["Erf", 4096]
    assert took["Tanh", 1024] < took["Tanh", 4096]


def test_every_library_rule_has_an_explanation():
    rules = tomllib.loads((SIMULATOR_FOLDER.parent / "rules.toml").read_text())
    texts = [(SIMULATOR_FOLDER / "runtime" / name).read_text() for name in SOURCES]
    used = {code for text in texts for code in re.findall(r'"(E-[A-Z0-9-]+)"', text)}
    assert {"E-LIB-TMP", "E-CROSS-FLAG"} <= used
    assert not used - rules.keys()
