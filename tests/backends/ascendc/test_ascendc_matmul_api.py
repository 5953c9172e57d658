"""Compares the simulator's Matmul, cube instructions and cross-core flags with numpy."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from library_kernels import CUBE, MEETS, MIX, Broken, busy_cycles, cycles, launch

RNG = np.random.default_rng(11)
FIELDS = 50
"""Fields of TCubeTiling, all int32."""


def tiling(m: int, n: int, k: int, single: tuple[int, int], base: tuple[int, int] = (32, 32), bias: int = 0, order: int = 0) -> bytes:
    fields = [0] * FIELDS
    fields[:11] = [1, m, n, k, k, *single, k, *base, 64]
    fields[15], fields[17] = bias, order
    return struct.pack(f"<{FIELDS}i", *fields)


def multiply(
    kernel: str,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    bias: np.ndarray | None = None,
    turned=(0, 0),
    single=None,
    mode=0,
    order=0,
    flags=0,
):
    m, n = c.shape
    k = a.shape[0] if turned[0] else a.shape[1]
    single = single or (m, n)
    given = np.zeros(n, c.dtype) if bias is None else bias
    blocks = -(-m // single[0]) * -(-n // single[1])
    packed = tiling(m, n, k, single, bias=int(bias is not None), order=order) + struct.pack("<4i", *turned, int(bias is not None), mode)
    launch(kernel, [a, b, given, c], packed, blocks, flags)
    return c


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("turned", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_a_product_of_several_cores_with_tails(turned, mode):
    m, n, k = 100, 90, 70
    a, b, bias = numbers(*((k, m) if turned[0] else (m, k))), numbers(*((n, k) if turned[1] else (k, n))), numbers(n)
    wanted = (a.T if turned[0] else a) @ (b.T if turned[1] else b) + bias
    got = multiply("product_float", a, b, np.zeros((m, n), np.float32), bias, turned, single=(64, 48), mode=mode)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", [0, 1])
def test_tiles_come_in_either_order(order):
    a, b = numbers(70, 40), numbers(40, 80)
    got = multiply("product_float", a, b, np.zeros((70, 80), np.float32), mode=1, order=order)
    np.testing.assert_allclose(got, a @ b, rtol=1e-4, atol=1e-4)


def test_products_of_other_types():
    a, b = numbers(33, 48, dtype=np.float16), numbers(48, 29, dtype=np.float16)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(multiply("product_half", a, b, np.zeros((33, 29), np.float32)), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        multiply("product_half_half", a, b, np.zeros((33, 29), np.float16)).astype(float), wanted, rtol=2e-3, atol=2e-3
    )
    small, other = RNG.integers(-128, 128, (20, 300)).astype(np.int8), RNG.integers(-128, 128, (300, 24)).astype(np.int8)
    exact = multiply("product_int8", small, other, np.zeros((20, 24), np.int32))
    np.testing.assert_array_equal(exact, small.astype(np.int32) @ other.astype(np.int32))
    brain = [(x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for x in (a, b)]
    wide = [(x.astype(np.uint32) << 16).view(np.float32) for x in brain]
    np.testing.assert_allclose(multiply("product_brain", *brain, np.zeros((33, 29), np.float32)), wide[0] @ wide[1], rtol=1e-4, atol=1e-4)


def test_atomic_products_add_up():
    a, b, c = numbers(32, 16), numbers(16, 32), np.ones((32, 32), np.float32)
    np.testing.assert_allclose(multiply("product_float", a, b, c, mode=2), a @ b + 1, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "kernel", ["product_strips", "product_local", "product_batch", "product_parts", "product_workspace", "product_scaled"]
)
def test_other_operand_positions(kernel):
    m, n, k = 48, 32, 64
    a, b = numbers(m, k, dtype=np.float16), numbers(k, n, dtype=np.float16)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    if kernel == "product_strips":
        a, b = (np.ascontiguousarray(x.reshape(x.shape[0], -1, 16).swapaxes(0, 1)) for x in (a, b))
    if kernel == "product_batch":
        a, b = np.stack([a, -a]), np.stack([b, 2 * b]).astype(np.float16)
        wanted = np.matmul(a.astype(np.float32), b.astype(np.float32)).reshape(2 * m, n)
    c = np.zeros(wanted.shape, np.float32)
    launch(kernel, [a, b, c], tiling(m, n, k, (m, n)) + struct.pack("<4i", 0, 0, 0, 0))
    np.testing.assert_allclose(c, wanted * (0.5 if kernel == "product_scaled" else 1), rtol=1e-3, atol=1e-3)


def pack_scales(scales: np.ndarray, offset: int = 0) -> np.ndarray:
    """The scales as the output of the cube takes them: float bits, an offset of 9 bits, and a bit for signed results."""
    bits = scales.astype(np.float32).view(np.uint32).astype(np.uint64)
    return bits | np.uint64((offset & 0x1FF) << 37) | np.uint64(1 << 46)


def dequantise(kernel: str, c: np.ndarray, scales: np.ndarray, mode: int) -> tuple[np.ndarray, np.ndarray]:
    """The result of a product of int8 and its exact sums."""
    m, n, k = *c.shape, 96
    a, b = (RNG.integers(-50, 50, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    launch(kernel, [a, b, scales, c], tiling(m, n, k, (m, n)) + struct.pack("<4i", 0, 0, 0, mode))
    return c, a.astype(np.int64) @ b.astype(np.int64)


@pytest.mark.parametrize("mode", [1, 2])
def test_products_of_int8_are_dequantised(mode):
    scales = RNG.uniform(0.001, 0.01, 40).astype(np.float32)
    kept = (scales.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)  # the hardware takes 19 bits
    got, sums = dequantise("dequantised_half", np.zeros((33, 40), np.float16), pack_scales(scales), mode)
    wanted = (sums.astype(np.float32) * (kept[0] if mode == 1 else kept)).astype(np.float16)
    np.testing.assert_array_equal(got, wanted)
    got, sums = dequantise("dequantised_int8", np.zeros((33, 40), np.int8), pack_scales(scales, -7), mode)
    rounded = np.rint(sums.astype(np.float32) * (kept[0] if mode == 1 else kept)) - 7
    np.testing.assert_array_equal(got, np.clip(rounded, -128, 127).astype(np.int8))


def test_products_of_int8_need_scales():
    with pytest.raises(Broken, match="E-CUBE-QUANT"):
        dequantise("dequantised_half", np.zeros((32, 32), np.float16), pack_scales(np.ones(32)), 0)
    with pytest.raises(Broken, match="E-GM-OOB"):
        dequantise("dequantised_half", np.zeros((32, 32), np.float16), pack_scales(np.ones(16)), 2)


def test_the_cube_multiplies_int8_twice_as_fast_as_half():
    size, busy = 128, {}
    for kernel, kind, out in (("product_half", np.float16, np.float32), ("product_int8", np.int8, np.int32)):
        multiply(kernel, np.ones((size, size), kind), np.ones((size, size), kind), np.zeros((size, size), out))
        busy[kernel] = busy_cycles()["M"]
    assert busy["product_half"] == 2 * busy["product_int8"] == size**3 / 4096


def test_a_larger_product_takes_longer_and_two_vector_cores_share_a_cube():
    took = []
    for size in (64, 256):
        a, b = numbers(size, size), numbers(size, size)
        multiply("product_float", a, b, np.zeros((size, size), np.float32))
        took.append(cycles())
    assert took[1] > 3 * took[0]
    multiply("product_float", a, b, np.zeros((size, size), np.float32), flags=MIX)
    assert 0.9 * took[1] < cycles() < 1.1 * took[1], "one that asks alone has the cube for itself"
    multiply("product_float", a, b, np.zeros((size, size), np.float32), single=(size // 2, size))
    apart = cycles()
    multiply("product_float", a, b, np.zeros((size, size), np.float32), single=(size // 2, size), flags=MIX)
    assert cycles() > 1.5 * apart, "two that ask wait for each other"


def test_matmul_violations_are_reported():
    a, b, bias = numbers(32, 16), numbers(16, 32), numbers(32)
    shape = struct.pack("<4i", 0, 0, 1, 0)
    with pytest.raises(Broken, match="E-MM-BIAS"):
        launch("product_float", [a, b, bias, np.zeros((32, 32), np.float32)], tiling(32, 32, 16, (32, 32)) + shape)
    with pytest.raises(Broken, match="E-MM-TILING"):
        launch("product_float", [a, b, bias, np.zeros((32, 32), np.float32)], tiling(32, 32, 16, (0, 0)) + shape)
    with pytest.raises(Broken, match="E-GM-OOB"):
        launch("product_float", [a, b[:8], bias, np.zeros((32, 32), np.float32)], tiling(32, 32, 16, (32, 32), bias=1) + shape)
    with pytest.raises(Broken, match="E-MM-TENSOR"):
        launch("product_forgotten", [a.astype(np.float16), b.astype(np.float16), bias], tiling(32, 32, 16, (32, 32)) + shape)


def on_cube(kernel: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: int = 0) -> np.ndarray:
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    launch(kernel, [a, b, c], struct.pack("<4i", m, n, k, mode), flags=CUBE)
    return c


def test_fractals_are_loaded_with_rows_that_are_not_multiplied():
    a, b = numbers(37, 45, dtype=np.float16), numbers(45, 50, dtype=np.float16)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(on_cube("multiply_half", a, b, np.zeros((37, 50), np.float32), mode=5), wanted, rtol=1e-4, atol=1e-4)
    with pytest.raises(Broken, match="E-UNINIT: Mmad"):
        on_cube("multiply_half", a, b, np.zeros((37, 50), np.float32), mode=6)


@pytest.mark.parametrize("size", [(16, 16, 16), (37, 50, 45), (64, 128, 100)])
def test_cube_instructions(size):
    m, n, k = size
    a, b = numbers(m, k, dtype=np.float16), numbers(k, n, dtype=np.float16)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(on_cube("multiply_half", a, b, np.zeros((m, n), np.float32)), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(on_cube("multiply_half", a, b, np.zeros((m, n), np.float32), mode=2), 2 * wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        on_cube("multiply_half", a, b, np.zeros((m, n), np.float32), mode=3), np.maximum(wanted, 0), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(
        on_cube("multiply_half_half", a, b, np.zeros((m, n), np.float16)).astype(float), wanted, rtol=2e-3, atol=2e-3
    )
    strips = np.zeros((-(-n // 16), -(-m // 16) * 16, 16), np.float32)
    launch("multiply_half_strips", [a, b, strips], struct.pack("<4i", m, n, k, 0), flags=CUBE)
    np.testing.assert_allclose(strips.swapaxes(0, 1).reshape(strips.shape[1], -1)[:m, :n], wanted, rtol=1e-4, atol=1e-4)
    small, other = RNG.integers(-128, 128, (m, k)).astype(np.int8), RNG.integers(-128, 128, (k, n)).astype(np.int8)
    exact = on_cube("multiply_int8", small, other, np.zeros((m, n), np.int32))
    np.testing.assert_array_equal(exact, small.astype(np.int32) @ other.astype(np.int32))


def test_biases_of_half_precision_become_float():
    a, b = numbers(20, 48, dtype=np.float16), numbers(48, 64, dtype=np.float16)
    wanted = a.astype(np.float32) @ b.astype(np.float32) + b[0].astype(np.float32)
    np.testing.assert_allclose(on_cube("multiply_half", a, b, np.zeros((20, 64), np.float32), mode=4), wanted, rtol=1e-4, atol=1e-4)


def test_cube_violations_are_reported():
    a, b = numbers(32, 32, dtype=np.float16), numbers(32, 32, dtype=np.float16)
    with pytest.raises(Broken, match="E-RACE"):
        on_cube("multiply_half", a, b, np.zeros((32, 32), np.float32), mode=1)
    with pytest.raises(Broken, match="E-CUBE-QUANT"):
        on_cube("multiply_half_wrong", a, b, np.zeros((32, 32), np.float16))
    with pytest.raises(Broken, match="E-L1-FULL"):
        on_cube("multiply_half", numbers(256, 200, dtype=np.float16), numbers(200, 256, dtype=np.float16), np.zeros((256, 256), np.float32))


def test_convolution_with_load3d():
    x, w = numbers(16, 6, 7, dtype=np.float16), numbers(16, 16, 3, 3, dtype=np.float16)
    wide = np.pad(x.astype(np.float32), ((0, 0), (1, 1), (1, 1)))
    wanted = np.zeros((16, 6, 7), np.float32)
    for y in range(3):
        for z in range(3):
            wanted += np.einsum("oc,chw->ohw", w[:, :, y, z].astype(np.float32), wide[:, y : y + 6, z : z + 7])
    picture = np.ascontiguousarray(x.transpose(1, 2, 0))  # height, width, 16 channels
    weights = np.ascontiguousarray(w.transpose(2, 3, 1, 0).reshape(144, 16))  # taps and channels by outputs
    out = np.zeros((42, 16), np.float32)
    launch("convolve", [picture, weights, out], struct.pack("<4i", 6, 7, 144, 0), flags=CUBE)
    np.testing.assert_allclose(out.T.reshape(16, 6, 7), wanted, rtol=1e-3, atol=1e-2)


def test_cube_and_vector_cores_synchronize_with_flags():
    first, second = np.zeros(64, np.float32), np.zeros(128, np.float32)
    launch("handover", [first, second], struct.pack("<4i", 0, 0, 0, 0), blocks=4, flags=MIX | CUBE | MEETS)
    np.testing.assert_array_equal(first[::16], [1, 2, 3, 4])
    np.testing.assert_array_equal(first[1::16], 7)
    np.testing.assert_array_equal(second[::16], [2, 2, 4, 4, 6, 6, 8, 8])
    with pytest.raises(Broken, match="E-SYNC-LOST"):
        launch("handover", [first, second], struct.pack("<4i", 0, 0, 0, 1), blocks=4, flags=MIX | CUBE | MEETS)


def test_blocks_synchronize_with_signals_turns_and_flags():
    marks = np.zeros(4096, np.int32)
    for mode in (0, 1):
        sums = np.zeros(96, np.float32)
        launch("relay", [sums, marks], struct.pack("<4i", 0, 0, 0, mode), blocks=6, flags=MEETS)
        np.testing.assert_array_equal(sums[::16], np.cumsum(np.arange(1, 7)))
        assert mode == 0 or sums[81] == 21
    out = np.zeros(96, np.float32)
    launch("gather", [np.zeros(96, np.float32), out], struct.pack("<4i", 0, 6, 0, 0), blocks=6, flags=MEETS)
    np.testing.assert_array_equal(out[::16], 21)
    with pytest.raises(Broken, match="E-SYNC-ALONE"):
        launch("gather", [np.zeros(96, np.float32), out], struct.pack("<4i", 0, 6, 0, 0), blocks=6)
