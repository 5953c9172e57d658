"""Vector instructions of the simulator that cross lanes, against numpy: reductions, comparisons, gathers, sorts, transpositions."""

import numpy as np
import pytest
from vector_bench import COUNTS, EQ, FLOATS, GE, GT, LE, LT, NE, Bench, dtype_of, numbers, up, whole, width


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


# ---- reductions


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [*COUNTS, 5000])
def test_reductions_of_all_elements_equal_numpy(bench: Bench, dtype: str, count: int) -> None:
    x = numbers(up(count), dtype)
    total = x[:count].astype("float64").sum()
    for case in ("sum", "sum_value"):
        got = bench.run(f"{case}:{dtype}", [x], [count], dtype, 1)[0]
        np.testing.assert_allclose(got, total, rtol=2e-3 if dtype == "float16" else 1e-5, atol=1e-2 if dtype == "float16" else 1e-4)
    index = "uint32" if dtype == "float32" else "uint16"
    for case, best in (("maximum", x[:count].argmax()), ("minimum", x[:count].argmin())):
        got = bench.run(f"{case}:{dtype}", [x], [count, 1], dtype, 2)
        assert got[0] == x[best]
        assert got.view(index)[1] == best
        alone = bench.run(f"{case}:{dtype}", [x], [count, 0], dtype, 2)
        assert alone[0] == x[best]
        assert not alone.view(index)[1]


def test_reduce_max_returns_first_of_equal_elements(bench: Bench) -> None:
    x = np.zeros(300, "float32")
    x[[70, 200]] = 9
    assert bench.run("maximum:float32", [x], [300, 1], "uint32", 2)[1] == 70
    assert bench.run("maximum_over_source:float32", [x], [300], "uint32", 2)[1] == 70


def test_sums_are_trees_within_a_repeat(bench: Bench) -> None:
    x = numbers(64, "float32") * np.float32(1e4)
    tree = x.copy()
    while tree.size > 1:
        tree = tree[0::2] + tree[1::2]
    assert bench.run("sum:float32", [x], [64], "float32", 1)[0] == tree[0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("mask", "repeats"), [(64, 4), (17, 3)])
def test_reductions_by_repeat_equal_numpy(bench: Bench, dtype: str, mask: int, repeats: int) -> None:
    w, per_block = width(dtype), 32 // np.dtype(dtype).itemsize
    x = whole(w * repeats, dtype)
    rows = x.reshape(repeats, w)[:, :mask]
    index = "uint32" if dtype == "float32" else "uint16"
    run = bench.run
    np.testing.assert_array_equal(run(f"whole_sum:{dtype}", [x], [mask, repeats, 1], dtype, repeats), rows.sum(1))
    np.testing.assert_array_equal(run(f"whole_sum:{dtype}", [x], [mask, repeats, 3], dtype, (repeats, 3))[:, 0], rows.sum(1))
    np.testing.assert_array_equal(run(f"repeat_sum:{dtype}", [x], [mask, repeats], dtype, repeats), rows.sum(1))
    assert run(f"sum_mask:{dtype}", [x], [mask, repeats, 8], dtype, 1)[0] == rows.sum()
    got = run(f"maximum_mask:{dtype}", [x], [mask, repeats, 8], dtype, 2)
    best = int(rows.argmax())
    assert got[0] == rows.max()
    assert got.view(index)[1] == best // mask * w + best % mask
    pairs = run(f"whole_max:{dtype}", [x], [mask, repeats, 0], dtype, (repeats, 2))
    np.testing.assert_array_equal(pairs[:, 0], rows.max(1))
    np.testing.assert_array_equal(pairs.view(index)[:, 1], rows.argmax(1))
    swapped = run(f"whole_min:{dtype}", [x], [mask, repeats, 1], dtype, (repeats, 2))
    np.testing.assert_array_equal(swapped[:, 1], rows.min(1))
    np.testing.assert_array_equal(run(f"whole_min:{dtype}", [x], [mask, repeats, 2], dtype, repeats), rows.min(1))
    np.testing.assert_array_equal(run(f"whole_max:{dtype}", [x], [mask, repeats, 3], "uint32", repeats), rows.argmax(1))
    value = run(f"whole_max_count:{dtype}", [x], [mask, repeats], dtype, 2)
    assert value[0] == rows.max()
    lanes = np.arange(w) < mask
    for case, reduce in (("block_sum", np.sum), ("block_max", np.max), ("block_min", np.min)):
        wanted = np.zeros((repeats, 8), dtype)
        for block in range((mask + per_block - 1) // per_block):
            wanted[:, block] = reduce(
                x.reshape(repeats, 8, per_block)[:, block, lanes[block * per_block : (block + 1) * per_block]], axis=1
            )
        np.testing.assert_array_equal(run(f"{case}:{dtype}", [x], [mask, repeats], dtype, (repeats, 8)), wanted, err_msg=case)
    wanted = np.where(lanes, x.reshape(repeats, w), 0).reshape(repeats, w // 2, 2).sum(2)
    np.testing.assert_array_equal(run(f"pair_sum:{dtype}", [x], [mask, repeats], dtype, (repeats, w // 2)), wanted)


def test_sum_by_bits_equals_numpy(bench: Bench) -> None:
    x = whole(128, "float32")
    wanted = (x.reshape(2, 64) * [(0b1011 >> i) & 1 if i < 4 else 0 for i in range(64)]).sum(1)
    np.testing.assert_array_equal(bench.run("whole_sum_bits:float32", [x], [0b1011, 0, 2], "float32", 2), wanted)


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_in_counter_mode_equal_numpy(bench: Bench, dtype: str) -> None:
    w = width(dtype)
    x, count = whole(w * 3, dtype), 2 * w + 5
    wanted = [x[:w].sum(), x[w : 2 * w].sum(), x[2 * w : count].sum(), 0]
    np.testing.assert_array_equal(bench.run(f"whole_sum_counter:{dtype}", [x], [count], dtype, 4), wanted)


def test_builtins_equal_numpy(bench: Bench) -> None:
    x, y = whole(256, "float32"), whole(256, "float32", seed=1)
    got = bench.run("raw_sum", [x], [4], "float32", 12)
    assert got[0] == x.sum()
    np.testing.assert_array_equal(got[8:], x.reshape(4, 64).sum(1))
    np.testing.assert_array_equal(bench.run("raw_arithmetic", [x, y], [100], "float32", 128)[:100], np.abs(x * y + 1)[:100])
    assert not bench.run("raw_arithmetic", [x, y], [100], "float32", 128)[100:].any()
    assert bench.breaks("raw_outside", [x], []) == "E-UB-NULL"


# ---- comparing and choosing

COMPARED = {LT: np.less, GT: np.greater, EQ: np.equal, LE: np.less_equal, GE: np.greater_equal, NE: np.not_equal}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", COMPARED)
def test_comparisons_equal_numpy(bench: Bench, dtype: str, mode: int) -> None:
    a, b = (np.rint(numbers(256, dtype, seed)).astype(dtype) for seed in (0, 1))
    a[3] = np.nan
    bits = np.packbits(COMPARED[mode](a, b), bitorder="little")
    np.testing.assert_array_equal(bench.run(f"compare:{dtype}", [a, b], [mode, 256], "uint8", 32), bits)
    np.testing.assert_array_equal(bench.run(f"compare_repeat:{dtype}", [a, b], [mode, 256 // width(dtype)], "uint8", 32), bits)
    scalar = np.packbits(COMPARED[mode](a, dtype_of(dtype, 0.5)), bitorder="little")
    np.testing.assert_array_equal(bench.run(f"compare_scalar:{dtype}", [a], [mode, 256], "uint8", 32), scalar)
    first = np.packbits(COMPARED[mode](a, b)[: width(dtype)], bitorder="little")
    np.testing.assert_array_equal(bench.run(f"compare_register:{dtype}", [a, b], [mode], "uint8", first.size), first)


@pytest.mark.parametrize("dtype", FLOATS)
def test_selections_equal_numpy(bench: Bench, dtype: str) -> None:
    w = width(dtype)
    a, b, bits = numbers(256, dtype), numbers(256, dtype, 1), whole(64, "uint8", 0, 256)
    flags = np.unpackbits(bits, bitorder="little")[:256].astype(bool)
    same = np.resize(flags[:w], 256)
    run = bench.run
    np.testing.assert_array_equal(run(f"select:{dtype}", [a, b, bits], [2, 250], dtype, 250), np.where(flags, a, b)[:250])
    np.testing.assert_array_equal(run(f"select:{dtype}", [a, b, bits], [0, 256], dtype, 256), np.where(same, a, b))
    np.testing.assert_array_equal(
        run(f"select_scalar:{dtype}", [a, b, bits], [1, 250], dtype, 250), np.where(flags, a, dtype_of(dtype, -1))[:250]
    )
    wanted = np.zeros(256, dtype)
    for r in range(2):
        wanted[r * w : r * w + 40] = np.where(flags, a, b)[r * w : r * w + 40]
    np.testing.assert_array_equal(run(f"select_mask:{dtype}", [a, b, bits], [2, 40, 2], dtype, 256), wanted)
    chosen = np.where(np.resize(a[:w] > b[:w], 2 * w), a[: 2 * w], b[: 2 * w])
    np.testing.assert_array_equal(run(f"select_register:{dtype}", [a, b], [], dtype, 2 * w), chosen)


# ---- gathering


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [1, 65, 300])
def test_gather_equals_numpy(bench: Bench, dtype: str, count: int) -> None:
    x, size = numbers(1000, dtype), np.dtype(dtype).itemsize
    places = np.random.default_rng(2).integers(0, 900, up(count, 128)).astype("uint32")
    got = bench.run(f"gather:{dtype}", [x, places * size], [4 * size, count], dtype, count)
    np.testing.assert_array_equal(got, x[places[:count] + 4])


def test_gather_by_mask_and_by_block_equals_numpy(bench: Bench) -> None:
    x = numbers(1000, "float32")
    places = np.random.default_rng(2).integers(0, 1000, 128).astype("uint32")
    wanted = np.zeros(128, "float32")
    for r in range(2):
        wanted[r * 64 : r * 64 + 30] = x[places[r * 64 : r * 64 + 30]]
    np.testing.assert_array_equal(bench.run("gather_mask_form:float32", [x, places * 4], [30, 2], "float32", 128), wanted)
    blocks = np.random.default_rng(3).integers(0, 100, 16).astype("uint32")
    values = np.arange(800, dtype="uint32")
    got = bench.run("gather_blocks", [values, blocks * 32], [2], "uint32", (16, 8))
    np.testing.assert_array_equal(got, values.reshape(100, 8)[blocks])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("pattern", range(1, 8))
def test_gather_mask_by_pattern_equals_numpy(bench: Bench, dtype: str, pattern: int) -> None:
    w = width(dtype)
    x = numbers(w * 4, dtype)
    steps = {1: (0, 2), 2: (1, 2), 3: (0, 4), 4: (1, 4), 5: (2, 4), 6: (3, 4), 7: (0, 1)}
    first, step = steps[pattern]
    wanted = x.reshape(4, w)[:, first::step].ravel()
    got = bench.run(f"keep:{dtype}", [x], [pattern, 0, 0, 4], "uint8", 24 * 1024)
    assert got.view("uint32")[-1] == wanted.size
    np.testing.assert_array_equal(got.view(dtype)[: wanted.size], wanted)
    part = x.reshape(4, w)[:2, :50][:, first::step].ravel()
    got = bench.run(f"keep:{dtype}", [x], [pattern, 1, 50, 2], "uint8", 24 * 1024)
    assert got.view("uint32")[-1] == part.size
    np.testing.assert_array_equal(got.view(dtype)[: part.size], part)


def test_gather_mask_by_bits_equals_numpy(bench: Bench) -> None:
    x, bits = numbers(640, "float32"), whole(32, "uint32", 0, 2**32)
    flags = np.unpackbits(bits.view("uint8"), bitorder="little").astype(bool)
    got = bench.run("keep_bits", [x, bits], [1, 500, 1, 0], "uint8", 24 * 1024)
    wanted = x[:500][flags[:500]]
    assert got.view("uint32")[-1] == wanted.size
    np.testing.assert_array_equal(got.view("float32")[: wanted.size], wanted)
    got = bench.run("keep_bits", [x, bits], [0, 0, 3, 1], "uint8", 24 * 1024)
    wanted = np.concatenate([x[r * 64 : (r + 1) * 64][flags[r * 256 : r * 256 + 64]] for r in range(3)])
    np.testing.assert_array_equal(got.view("float32")[: wanted.size], wanted)


# ---- sorting and turning


def records(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
    made = np.zeros((values.size, 8), np.uint8)
    made[:, : values.itemsize] = np.ascontiguousarray(values).view(np.uint8).reshape(values.size, values.itemsize)
    made[:, 4:] = indices.astype("uint32").view(np.uint8).reshape(values.size, 4)
    return made


@pytest.mark.parametrize("dtype", FLOATS)
def test_sorting_equals_numpy(bench: Bench, dtype: str) -> None:
    x, order = np.rint(numbers(96, dtype) * dtype_of(dtype, 3)).astype(dtype), np.arange(96, dtype="uint32")
    wanted = []
    for r in range(3):
        places = np.argsort(-x[r * 32 : (r + 1) * 32], kind="stable") + r * 32
        wanted.append(records(x[places], places))
    np.testing.assert_array_equal(bench.run(f"sort32:{dtype}", [x, order], [3], "uint8", (96, 8)), np.concatenate(wanted))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("repeats", [1, 3, 4, 5, 17])
def test_sorting_all_elements_equals_numpy(bench: Bench, dtype: str, repeats: int) -> None:
    count = repeats * 32
    x = np.random.default_rng(0).permutation(count).astype(dtype)
    got = bench.run(f"sort_full:{dtype}", [x, np.arange(count, dtype="uint32")], [repeats], "uint8", 24 * 1024)
    np.testing.assert_array_equal(got.view(dtype)[:count], np.sort(x)[::-1])
    np.testing.assert_array_equal(got.view("uint32")[2048 : 2048 + count], np.argsort(-x))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("lengths", "valid"), [((40, 30, 20, 10), 15), ((5, 9, 0, 0), 3), ((8, 8, 8, 0), 7)])
@pytest.mark.parametrize("suspends", [0, 1])
def test_merging_equals_numpy(bench: Bench, dtype: str, lengths: tuple[int, ...], valid: int, suspends: int) -> None:
    queues = [np.sort(np.random.default_rng(i).permutation(1000)[:n].astype(dtype))[::-1] for i, n in enumerate(lengths)]
    space = np.zeros((1024, 8), np.uint8)
    for i, queue in enumerate(queues):
        space[i * 256 : i * 256 + queue.size] = records(queue, np.full(queue.size, i))
    got = bench.run(f"merge:{dtype}", [space], [*lengths, suspends, valid], "uint8", 24 * 1024)
    all_of_them = sorted([(-value, i) for i, queue in enumerate(queues) for value in queue])
    taken, wanted = [0] * 4, []
    for value, i in all_of_them:
        if suspends and any(0 < n == t for n, t in zip(lengths, taken, strict=True)):
            break
        wanted.append(-value)
        taken[i] += 1
    np.testing.assert_array_equal(got.view(dtype).reshape(-1, 8 // np.dtype(dtype).itemsize)[: len(wanted), 0], wanted)
    np.testing.assert_array_equal(got.view("uint32")[-4:], taken)


def test_transpositions_equal_numpy(bench: Bench) -> None:
    x = numbers(256, "float16").reshape(16, 16)
    for case in ("transpose16", "raw_transpose"):
        np.testing.assert_array_equal(bench.run(case, [x], [], "float16", (16, 16)), x.T)
    y = numbers(2 * 3 * 4 * 8, "float32").reshape(2, 3, 4, 8)
    np.testing.assert_array_equal(bench.run("transpose_channels", [y], [2, 3, 4, 8, 0], "float32", (2, 4, 8, 3)), y.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(
        bench.run("transpose_channels", [y], [2, 3, 4, 8, 1], "float32", (2, 3, 4, 8)).ravel(),
        y.reshape(2, 4, 8, 3).transpose(0, 3, 1, 2).ravel(),
    )


def test_transposed_blocks_equal_numpy(bench: Bench) -> None:
    x = numbers(256, "float16").reshape(16, 16)
    np.testing.assert_array_equal(bench.run("blocks16", [x], [1], "float16", (16, 16)), x.T)
    y = numbers(128, "float32").reshape(16, 8)
    np.testing.assert_array_equal(bench.run("blocks32", [y], [1], "float32", (8, 16)), y.T)
    z = numbers(512, "float16").reshape(16, 32)
    np.testing.assert_array_equal(bench.run("blocks16", [z], [2], "float16", (32, 16)), z.T)
    b = whole(512, "uint8", 0, 256).reshape(16, 32)
    np.testing.assert_array_equal(bench.run("blocks8", [b], [0], "uint8", (16, 32))[:, :16], b[:, :16].T)
    np.testing.assert_array_equal(bench.run("blocks8", [b], [1], "uint8", (16, 32))[:, 16:], b[:, 16:].T)


# ---- global memory


def test_copies_from_global_memory_fill_and_pad(bench: Bench) -> None:
    x = np.arange(1024, dtype="float32")
    got = bench.run("init_output", [x], [100], "float32", 1024)
    np.testing.assert_array_equal(got, np.where((x >= 8) & (x < 108), np.float32(2.5), x))
    rows = x[: 3 * 40].reshape(3, 40)[:, :16]
    np.testing.assert_array_equal(bench.run("raw_copies", [x], [2, 3], "float32", (3, 16)), rows)
    padded = bench.run("raw_rows", [x], [20], "float32", (4, 8))
    np.testing.assert_array_equal(padded[:, :5], x[:20].reshape(4, 5))
    filled = bench.run("pad_value", [x], [5], "float32", (2, 8))
    np.testing.assert_array_equal(filled[:, :5], x[:10].reshape(2, 5))
    assert (filled[:, 5:] == -1).all()


def test_default_fill_value_of_data_copy_pad(bench):
    x = np.arange(1, 1025, dtype=np.float32)
    first = bench.run("pad_nothing", [x], [5, 0, 0], "float32", (2, 8))
    np.testing.assert_array_equal(first[:, :5], x[:10].reshape(2, 5))
    np.testing.assert_array_equal(first[:, 5:], np.repeat(x[[0, 5]], 3).reshape(2, 3))
    unknown = bench.run("pad_nothing", [x], [5, 2, 1], "float32", (2, 8))
    np.testing.assert_array_equal(unknown[:, 2:7], x[:10].reshape(2, 5))
    assert (np.abs(unknown[:, [0, 1, 7]]) > 1e6).all()
