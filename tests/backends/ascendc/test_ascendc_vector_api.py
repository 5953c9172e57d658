"""Vector instructions of the simulator against numpy: values, tails, masks, strides, and the rules they enforce."""

import tomllib

import numpy as np
import pytest
from vector_bench import (
    CEIL,
    COUNTS,
    EQ,
    FLOATS,
    FLOOR,
    HARDWARE,
    LT,
    NONE,
    ODD,
    RINT,
    ROUND,
    TRUNC,
    Bench,
    dtype_of,
    elements,
    numbers,
    unit,
    up,
    whole,
    width,
)

from evokernel.backends.ascendc import build


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


# ---- by count


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", COUNTS)
def test_arithmetic_by_count_equals_numpy(bench: Bench, dtype: str, count: int) -> None:
    a, b, d = (numbers(up(count), dtype, seed) for seed in range(3))
    f = [x.astype("float32")[:count] for x in (a, b, d)]
    expected = {
        "add": f[0] + f[1],
        "add_relu": np.maximum(f[0] + f[1], 0),
        "sub_relu": np.maximum(f[0] - f[1], 0),
        "muls": f[0] * 3,
        "leaky": np.where(f[0] > 0, f[0], f[0] / 4),
        "dup": np.full(count, 2.5, dtype),
        "index": 5 + np.arange(count, dtype="float32"),
    }
    for case, wanted in expected.items():
        got = bench.run(f"{case}:{dtype}", [a, b], [count], dtype, count)
        np.testing.assert_allclose(got, wanted.astype(dtype), rtol=unit(dtype), err_msg=case)
        assert not bench.run(f"{case}:{dtype}", [a, b], [count], dtype, count + 8)[count:].any()


@pytest.mark.parametrize(
    ("case", "inputs", "printed"),
    [
        ("reciprocal", [-7.152, -7.24, 1.771, -1.339, 4.473], [-0.1396, -0.1382, 0.5645, -0.748, 0.2231]),
        ("rsqrt", [0.8335, 2.2, 2.672, 2.312, 5.36], [1.094, 0.676, 0.6113, 0.6562, 0.4316]),
    ],
)
@pytest.mark.parametrize("dtype", FLOATS)
def test_estimates_have_the_results_of_the_reference_manual(
    bench: Bench, case: str, inputs: list[float], printed: list[float], dtype: str
) -> None:
    """The manual prints half values; half keeps all bits of these estimates."""
    x = np.resize(np.array(inputs, "float16").astype(dtype), 16)
    got = bench.run(f"{case}:{dtype}", [x], [16], dtype, 16)[: len(inputs)]
    np.testing.assert_array_equal(got, np.array(printed, "float16").astype(dtype))
    exact = 1 / x[: len(inputs)].astype("float64") if case == "reciprocal" else x[: len(inputs)].astype("float64") ** -0.5
    assert np.abs(got / exact - 1).max() > 1.5e-3


@pytest.mark.parametrize(("case", "exact"), [("reciprocal", lambda x: 1 / x), ("rsqrt", lambda x: x**-0.5)])
def test_estimates_have_nine_bits_and_bounded_errors(bench: Bench, case: str, exact) -> None:
    x = np.random.default_rng(5).uniform(0.01, 100, 4096).astype("float32")
    got = bench.run(f"{case}:float32", [x], [x.size], "float32", x.size).astype("float64")
    error = np.abs(got / exact(x.astype("float64")) - 1)
    assert 2.0**-9 < error.max() < 2.0**-8
    significands = np.frexp(got)[0] * 512
    np.testing.assert_array_equal(significands, np.rint(significands))


def test_sigmoid_through_the_estimate_misses_1e4_as_on_silicon(bench: Bench) -> None:
    """In [0.5, 1) the estimates are multiples of 2^-9."""
    x = np.random.default_rng(6).uniform(0, 1, 1024).astype("float32")
    got = bench.run("reciprocal:float32", [1 + np.exp(-x)], [x.size], "float32", x.size).astype("float64")
    np.testing.assert_array_equal(got * 512, np.rint(got * 512))
    assert not np.allclose(got, 1 / (1 + np.exp(-x.astype("float64"))), rtol=1e-4, atol=1e-4)


def test_estimates_of_special_values(bench: Bench) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**100, -1.0, 2.0**-100] * 2, "float32")
    for case, wanted in (
        ("reciprocal", [np.inf, -np.inf, 0, 0, np.nan, 511 * 2.0**-109, -511 / 512, 511 * 2.0**91]),
        ("rsqrt", [np.inf, -np.inf, 0, np.nan, np.nan, 511 * 2.0**-59, np.nan, 511 * 2.0**41]),
    ):
        np.testing.assert_array_equal(bench.run(f"{case}:float32", [x], [16], "float32", 16)[:8], np.float32(wanted), err_msg=case)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [16, 64, 208, 1008])
def test_fused_instructions_equal_numpy(bench: Bench, dtype: str, count: int) -> None:
    a, b, d = (numbers(count, dtype, seed) for seed in range(3))
    x, y, was = (v.astype("float32") for v in (a, b, d))
    expected = {
        "axpy": (y + x / 2, [a, b]),
        "mul_add_dst": (was + x * y, [a, b, d]),
        "fused_mul_add": (x * was + y, [a, b, d]),
        "mul_add_relu": (np.maximum(x * was + y, 0), [a, b, d]),
    }
    for case, (wanted, inputs) in expected.items():
        got = bench.run(f"{case}:{dtype}", inputs, [count], dtype, count)
        np.testing.assert_allclose(got, wanted.astype(dtype), rtol=unit(dtype), atol=unit(dtype) * 20, err_msg=case)


def test_mixed_types_equal_numpy(bench: Bench) -> None:
    x, base = numbers(96, "float16"), numbers(96, "float32", 1)
    np.testing.assert_allclose(bench.run("axpy_mixed", [x, base], [96], "float32", 96), base + x.astype("float32") / 2, rtol=1e-6)
    y = numbers(96, "float32", 2)
    np.testing.assert_array_equal(bench.run("add_relu_cast", [base, y], [96], "float16", 96), np.maximum(base + y, 0).astype("float16"))
    a, b = (numbers(96, "float16", seed) * np.float16(10) for seed in (3, 4))
    product = (a.astype("float32") * b.astype("float32")).astype("float16")
    np.testing.assert_array_equal(bench.run("mul_cast", [a, b], [96], "int8", 96), np.clip(np.rint(product.astype("float32")), -128, 127))


def test_scaled_casts_equal_numpy(bench: Bench) -> None:
    a, b = whole(64, "int32"), whole(64, "int32", seed=1)
    np.testing.assert_array_equal(bench.run("add_deq_relu", [a, b], [64], "float16", 64), np.maximum((a + b) * 0.5, 0).astype("float16"))
    np.testing.assert_array_equal(bench.run("cast_deq", [a], [64], "float16", 64), (a * 0.25).astype("float16"))
    s = whole(64, "int16", -400, 400)
    got = bench.run("cast_deq_bytes", [s], [64], "int8", 128).reshape(4, 2, 16)
    np.testing.assert_array_equal(got[:, 0].ravel(), np.clip(np.rint(s * 0.5) + 3, -128, 127))
    assert not got[:, 1].any()


def test_bits_and_shifts_equal_numpy(bench: Bench) -> None:
    a, b = whole(128, "uint16", 0, 65536), whole(128, "uint16", 0, 65536, 1)
    np.testing.assert_array_equal(bench.run("and16", [a, b], [128], "uint16", 128), a & b)
    s, i = whole(128, "int16", -30000, 30000), whole(128, "int32", -(10**9), 10**9)
    np.testing.assert_array_equal(bench.run("not16", [s], [128], "int16", 128), ~s)
    np.testing.assert_array_equal(bench.run("shift_left", [s], [128], "int16", 128), s << 3)
    np.testing.assert_array_equal(bench.run("shift_right", [i], [128], "int32", 128), i >> 4)
    np.testing.assert_array_equal(bench.run("shift_right_round", [i], [128], "int32", 128), (i >> 4) + ((i >> 3) & 1))


def test_overloads_work_through_templates(bench: Bench) -> None:
    a, b = numbers(64, "float32"), numbers(64, "float32", 1)
    np.testing.assert_allclose(bench.run("passed_on", [a, b], [64], "float32", 64), np.maximum(a / b, 0), rtol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS)
def test_operators_on_complete_tensors_equal_numpy(bench: Bench, dtype: str) -> None:
    a, b = numbers(256, dtype), numbers(256, dtype, 1)
    for number, wanted in enumerate((a + b, a - b, a * b, a / b)):
        got = bench.run(f"operators:{dtype}", [a, b], [200, number], dtype, 256)
        np.testing.assert_allclose(got[:200], wanted[:200], rtol=unit(dtype))
        assert not got[200:].any()
    for number, wanted in ((4, a < b), (5, a >= b)):
        got = bench.run(f"operators:{dtype}", [a, b], [256, number], "uint8", 32)
        np.testing.assert_array_equal(got, np.packbits(wanted, bitorder="little"))
    np.testing.assert_array_equal(bench.run(f"progression:{dtype}", [], [100], dtype, 100), 3 + np.arange(100) / 2)


# ---- by mask and repeats


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("strides", [(1, 1, 1, 8, 8, 8), (1, 2, 1, 8, 16, 0), (2, 1, 1, 16, 8, 8)])
@pytest.mark.parametrize(("mask", "repeats"), [(64, 3), (33, 2), (1, 5)])
def test_masked_overloads_equal_numpy(bench: Bench, dtype: str, strides: tuple[int, ...], mask: int, repeats: int) -> None:
    a, b = numbers(4096, dtype), numbers(4096, dtype, 1)
    lanes = np.arange(width(dtype)) < mask
    to, one, other = (elements(dtype, lanes, repeats, strides[i], strides[i + 3]) for i in range(3))
    wanted = np.zeros(4096, dtype)
    wanted[to] = a[one] + b[other]
    np.testing.assert_array_equal(bench.run(f"add_mask:{dtype}", [a, b], [mask, repeats, *strides], dtype, 4096), wanted)


@pytest.mark.parametrize("dtype", FLOATS)
def test_masks_of_bits_equal_numpy(bench: Bench, dtype: str) -> None:
    a, b = numbers(512, dtype), numbers(512, dtype, 1)
    low, high = 0xF0F0_0000_1234_8001, 0 if dtype == "float32" else 0x8000_0000_0000_0101
    lanes = np.array([(low if i < 64 else high) >> (i % 64) & 1 for i in range(width(dtype))], bool)
    where = elements(dtype, lanes, 3, 1, 8)
    for case, values in (
        ("add_bits", a + b),
        ("dup_bits", np.full(512, 7, dtype)),
        ("exp_bits", np.exp(a.astype("float32")).astype(dtype)),
    ):
        wanted = np.zeros(512, dtype)
        wanted[where] = values[where]
        np.testing.assert_allclose(bench.run(f"{case}:{dtype}", [a, b], [low, high, 3], dtype, 512), wanted, rtol=unit(dtype), err_msg=case)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fills_and_copies_by_mask_equal_numpy(bench: Bench, dtype: str) -> None:
    a = numbers(1024, dtype)
    lanes = np.arange(width(dtype)) < 40
    wanted = np.zeros(1024, dtype)
    wanted[elements(dtype, lanes, 2, 2, 16)] = 7
    np.testing.assert_array_equal(bench.run(f"dup_mask:{dtype}", [], [40, 2, 2, 16], dtype, 1024), wanted)
    wanted = np.zeros(1024, dtype)
    wanted[elements(dtype, lanes, 3, 1, 8)] = a[elements(dtype, lanes, 3, 1, 5)]
    np.testing.assert_array_equal(bench.run(f"copy_mask:{dtype}", [a], [40, 3, 1, 1, 8, 5], dtype, 1024), wanted)
    per_block = 32 // np.dtype(dtype).itemsize
    np.testing.assert_array_equal(bench.run(f"brcb:{dtype}", [a], [2, 1, 8], dtype, 16 * per_block), np.repeat(a[:16], per_block))


@pytest.mark.parametrize("dtype", FLOATS)
def test_accumulating_into_the_second_source_equals_numpy(bench: Bench, dtype: str) -> None:
    a = whole(width(dtype) * 5, dtype)
    got = bench.run(f"accumulate:{dtype}", [a], [5], dtype, width(dtype), level=HARDWARE)
    np.testing.assert_array_equal(got, a.reshape(5, -1).sum(0))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [1, 63, 64, 65, 500])
def test_counter_mode_equals_numpy(bench: Bench, dtype: str, count: int) -> None:
    a, b = numbers(512, dtype), numbers(512, dtype, 1)
    wanted = np.zeros(512, dtype)
    wanted[:count] = (a + b)[:count]
    np.testing.assert_array_equal(bench.run(f"counter:{dtype}", [a, b], [count], dtype, 512), wanted)
    wanted[:count] = (a * dtype_of(dtype, 2))[:count]
    np.testing.assert_array_equal(bench.run(f"counter_mask:{dtype}", [a], [count], dtype, 512), wanted)


@pytest.mark.parametrize("dtype", FLOATS)
def test_mask_register_selects_lanes(bench: Bench, dtype: str) -> None:
    a = numbers(256, dtype)
    lanes = np.zeros(width(dtype), bool)
    lanes[[0, 2, 5]] = True
    where = elements(dtype, lanes, 2, 1, 8)
    wanted = np.zeros(256, dtype)
    wanted[where] = a[where] + dtype_of(dtype, 1)
    np.testing.assert_array_equal(bench.run(f"register_bits:{dtype}", [a], [0b100101, 0, 2], dtype, 256), wanted)
    full = bench.run(f"register_forgotten:{dtype}", [a], [], dtype, width(dtype))
    np.testing.assert_array_equal(full, a[: width(dtype)] + dtype_of(dtype, 1))


# ---- casts

ROUNDED = {RINT: np.rint, FLOOR: np.floor, CEIL: np.ceil, TRUNC: np.trunc, ROUND: lambda x: np.trunc(x + np.copysign(0.5, x))}
HALVES = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49, -0.51, 3.0, 1e6, -1e6, 7.25], "float32")


@pytest.mark.parametrize("mode", ROUNDED)
@pytest.mark.parametrize(
    ("source", "target"), [("f32", "i32"), ("f32", "i16"), ("f32", "i64"), ("f32", "f32"), ("f16", "i32"), ("f16", "i8"), ("f16", "u8")]
)
def test_casts_to_integers_equal_numpy(bench: Bench, mode: int, source: str, target: str) -> None:
    types = {"f32": "float32", "f16": "float16", "i32": "int32", "i16": "int16", "i64": "int64", "i8": "int8", "u8": "uint8"}
    x = np.resize(np.clip(HALVES, -60000, 60000).astype(types[source]), 48)
    wanted = ROUNDED[mode](x.astype("float64"))
    if target != "f32":
        limits = np.iinfo(types[target])
        wanted = np.clip(wanted, limits.min, limits.max)
    got = bench.run(f"cast_{source}_{target}", [x], [48, mode], types[target], 48)
    np.testing.assert_array_equal(got, wanted.astype(types[target]))


def brain(x: np.ndarray) -> np.ndarray:
    return (x.astype("uint32") << 16).view("float32")


@pytest.mark.parametrize("mode", [RINT, FLOOR, CEIL, ROUND, TRUNC])
@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_casts_to_fewer_digits_equal_numpy(bench: Bench, mode: int, target: str) -> None:
    x = np.concatenate([numbers(500, "float32"), np.float32([1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11, 1 + 2**-8, 1e-6, -1e-7, 0, 65504])])
    raw = bench.run(f"cast_f32_{target}", [x], [x.size, mode], "uint16", x.size)
    got = raw.view("float16").astype("float64") if target == "f16" else brain(raw).astype("float64")
    step = np.abs(x.astype("float64")) * 2.0 ** (-10 if target == "f16" else -7) + 2.0 ** (-24 if target == "f16" else -130)
    error = got - x
    bounds = {FLOOR: (-1.0, 0.0), CEIL: (0.0, 1.0), RINT: (-0.5, 0.5), ROUND: (-0.5, 0.5)}
    if mode == TRUNC:
        assert (np.abs(got) <= np.abs(x)).all()
        assert (np.abs(error) <= step).all()
        return
    low, high = bounds[mode]
    assert (error >= low * step).all()
    assert (error <= high * step).all()
    if target == "f16" and mode == RINT:
        np.testing.assert_array_equal(raw.view("float16"), x.astype("float16"))
    if target == "f16" and mode == ROUND:
        assert got[500] == 1 + 2**-10
        assert got[502] == -1 - 2**-10


def test_cast_to_odd_equals_numpy(bench: Bench) -> None:
    x = numbers(300, "float32")
    got = bench.run("cast_f32_f16", [x], [300, ODD], "uint16", 300)
    exact = got.view("float16").astype("float32") == x
    assert ((got & 1 == 1) | exact).all()
    assert (np.abs(got.view("float16").astype("float64") - x) <= np.abs(x) * 2**-10 + 2**-24).all()


@pytest.mark.parametrize(
    ("case", "source", "target"),
    [
        ("cast_f16_f32", "float16", "float32"),
        ("cast_i32_f32", "int32", "float32"),
        ("cast_i32_i64", "int32", "int64"),
        ("cast_i8_f16", "int8", "float16"),
        ("cast_u8_f16", "uint8", "float16"),
        ("cast_i16_f16", "int16", "float16"),
    ],
)
def test_casts_that_keep_the_value(bench: Bench, case: str, source: str, target: str) -> None:
    x = numbers(300, "float16") if source == "float16" else whole(300, source, 0 if source == "uint8" else -120, 120)
    np.testing.assert_array_equal(bench.run(case, [x], [300, NONE], target, 300), x.astype(target))


def test_casts_between_integers_and_of_int64_equal_numpy(bench: Bench) -> None:
    x = np.array([5, -7, 40000, -40000, 2**31 - 1] * 4, "int32")
    np.testing.assert_array_equal(bench.run("cast_i32_i16", [x], [20, NONE], "int16", 20), np.clip(x, -32768, 32767))
    y = np.array([5, -7, 2**40, -(2**40), 2**24 + 1] * 4, "int64")
    np.testing.assert_array_equal(bench.run("cast_i64_i32", [y], [20, NONE], "int32", 20), np.clip(y, -(2**31), 2**31 - 1))
    np.testing.assert_array_equal(bench.run("cast_i64_f32", [y], [20, RINT], "float32", 20), y.astype("float32"))
    up_to = bench.run("cast_i64_f32", [y], [20, CEIL], "float32", 20)
    assert up_to[4] == 2**24 + 2
    assert bench.run("cast_i64_f32", [y], [20, FLOOR], "float32", 20)[4] == 2**24
    b = (numbers(64, "float32").view("uint32") >> 16).astype("uint16")
    np.testing.assert_array_equal(bench.run("cast_bf16_f32", [b], [64, NONE], "float32", 64), brain(b))


def test_int4_casts_equal_numpy(bench: Bench) -> None:
    x = whole(64, "float16", -12, 12)
    packed = bench.run("cast_f16_i4", [x], [64, NONE], "uint8", 32)
    values = np.stack([packed & 15, packed >> 4], 1).ravel().astype("int8")
    np.testing.assert_array_equal(np.where(values > 7, values - 16, values), np.clip(x, -8, 7))
    np.testing.assert_array_equal(bench.run("cast_i4_f16", [packed], [64, NONE], "float16", 64), np.clip(x, -8, 7))


def test_casts_by_mask_equal_numpy(bench: Bench) -> None:
    x = numbers(256, "float16")
    wanted = np.zeros(256, "float32")
    for r in range(4):
        wanted[r * 64 : r * 64 + 50] = x[r * 64 : r * 64 + 50]
    np.testing.assert_array_equal(bench.run("cast_mask", [x], [50, 4], "float32", 256), wanted)
    y = numbers(256, "float32")
    np.testing.assert_array_equal(bench.run("cast_narrow", [y], [4], "float16", 256), y.astype("float16"))
    np.testing.assert_array_equal(bench.run("cast_in_place", [y], [256], "float16", 256), y.astype("float16"))


# ---- rules


BROKEN = [
    ("add_bf16", ["uint16", "uint16"], [16], "E-DTYPE"),
    ("or32", ["int32", "int32"], [16], "E-DTYPE"),
    ("dup_int8", [], [16], "E-DTYPE"),
    ("cast_f16_bf16", ["float16"], [16, NONE], "E-CAST-PAIR"),
    ("cast_i8_f32", ["int8"], [16, NONE], "E-CAST-PAIR"),
    ("cast_f32_i32", ["float32"], [16, NONE], "E-CAST-PAIR"),
    ("cast_f16_f32", ["float16"], [16, RINT], "E-CAST-PAIR"),
    ("add:float32", ["float32", "float32"], [0], "E-COUNT"),
    ("add_mask:float32", ["float32", "float32"], [65, 1, 1, 1, 1, 8, 8, 8], "E-MASK"),
    ("add_mask:float32", ["float32", "float32"], [64, 0, 1, 1, 1, 8, 8, 8], "E-REPEAT"),
    ("add_bits:float32", ["float32", "float32"], [1, 1, 1], "E-MASK-HIGH"),
    ("add_bits:float16", ["float16", "float16"], [0, 0, 1], "E-MASK"),
    ("overlap_count", ["float32"], [500], "E-OVERLAP"),
    ("overlap_behind", ["float32"], [500], ""),
    ("overlap_count", ["float32"], [64], ""),
    ("cast_widening_in_place", ["float16"], [512], "E-OVERLAP"),
    ("maximum_small_work:float32", ["float32"], [640, 0, 16], "E-RED-WORK"),
    ("maximum_small_work:float32", ["float32"], [640, 0, 24], ""),
    ("maximum_small_work:float32", ["float32"], [640, 1, 24], "E-RED-WORK"),
    ("maximum_small_work:float32", ["float32"], [640, 1, 32], ""),
    ("whole_sum:float32", ["float32"], [64, 2, 70000], "E-STRIDE"),
    ("brcb:float32", ["float32"], [1, 0, 8], "E-STRIDE"),
    ("compare:float32", ["float32", "float32"], [LT, 100], "E-CMP-256"),
    ("compare_scalar:float16", ["float16"], [LT, 64], "E-CMP-256"),
    ("compare_int", ["int32", "int32"], [EQ, 64], ""),
    ("compare_int", ["int32", "int32"], [LT, 64], "E-DTYPE"),
    ("select:float32", ["float32", "float32", "uint8"], [1, 64], "E-SEL-MODE"),
    ("select_scalar:float32", ["float32", "float32", "uint8"], [2, 64], "E-SEL-MODE"),
    ("keep:float32", ["float32"], [0, 0, 0, 1], "E-GATHER-PATTERN"),
    ("scatter", ["float32", "uint32"], [64], "E-API-CHIP"),
    ("proposals", ["float16"], [], "E-API-CHIP"),
    ("sort32:float32", ["float32", "uint32"], [256], "E-SORT-COUNT"),
    ("merge:float32", ["float32"], [4, 4, 4, 4, 0, 5], "E-SORT-QUEUES"),
    ("transpose_channels", ["float32"], [1, 3, 1, 3, 0], "E-TRANSPOSE-SIZE"),
    ("transpose_channels", ["float32"], [1, 900, 1, 8, 0], "E-TRANSPOSE-WORK"),
]


@pytest.mark.parametrize(("case", "dtypes", "values", "code"), BROKEN)
def test_vector_violations_are_reported(bench: Bench, case: str, dtypes: list[str], values: list[int], code: str) -> None:
    inputs = [np.zeros(24 * 1024 // np.dtype(dtype).itemsize, dtype) for dtype in dtypes]
    assert bench.breaks(case, inputs, values) == code


def test_gather_offsets(bench: Bench) -> None:
    x = numbers(64, "float32")
    fine, odd, far = np.full(64, 252, "uint32"), np.full(64, 3, "uint32"), np.full(64, 256, "uint32")
    assert bench.breaks("gather_short:float32", [x, fine], [64, 64]) == ""
    assert bench.breaks("gather_short:float32", [x, odd], [64, 64]) == "E-GATHER-OFFSET"
    assert bench.breaks("gather_short:float32", [x, far], [64, 64]) == "E-GATHER-OFFSET"


def test_uninitialised_lanes_are_noticed(bench: Bench) -> None:
    """A tail may be computed with; what lies at the beginning was forgotten."""
    short, whole, empty = numbers(60, "float32"), numbers(64, "float32"), numbers(0, "float32")
    for case, values in (("add:float32", [64]), ("compare:float32", [LT, 64])):
        assert bench.breaks(case, [short, whole], values) == ""
        assert bench.breaks(case, [empty, whole], values) == "E-UNINIT"
    assert bench.breaks("add_mask:float32", [short, whole], [60, 1, 1, 1, 1, 8, 8, 8]) == ""
    assert bench.breaks("sum:float32", [short], [64]) == "E-UNINIT"


def test_every_vector_rule_has_an_explanation() -> None:
    rules = tomllib.loads((build.SIMULATOR_FOLDER.parent / "rules.toml").read_text())
    for code in {case[3] for case in BROKEN} - {""} | {
        "E-GATHER-OFFSET",
        "E-UNINIT",
        "E-RED-INDEX",
        "E-SORT-WORK",
        "E-API-TWIN",
        "E-TRANSPOSE-TYPE",
    }:
        assert rules[code].keys() == {"reason", "rule", "hint"}, code


def test_vector_instructions_cost_the_published_cycles(bench: Bench) -> None:
    """Huawei's cycles per repeat of 256 bytes, on top of what any instruction costs."""
    x, y, offsets = numbers(640, "float32"), numbers(640, "float32", 1), np.zeros(640, "uint32")

    def per_repeat(case: str, inputs: list[np.ndarray], few: list[int], many: list[int], more: int) -> float:
        bench.run(case, inputs, few, "uint8", 1)
        less = bench.cycles()
        bench.run(case, inputs, many, "uint8", 1)
        return (bench.cycles() - less) / more

    assert per_repeat("dup:float32", [], [64], [640], 9) == 1
    assert per_repeat("cast_f32_i32", [x], [64, RINT], [640, RINT], 9) == 1
    assert per_repeat("compare:float32", [x, y], [LT, 64], [LT, 640], 9) == 2
    assert per_repeat("compare_scalar:float32", [x], [LT, 64], [LT, 640], 9) == 1
    assert per_repeat("whole_max:float32", [x], [64, 1, 0], [64, 10, 0], 9) == 7
    assert per_repeat("gather:float32", [x, offsets], [0, 64], [0, 640], 9) == 12
    assert per_repeat("keep:float32", [x], [1, 0, 0, 1], [1, 0, 0, 10], 9) == 2
