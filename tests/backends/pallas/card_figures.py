"""The times on the pallas cards: the kernel, its edits, the sizes, and the text of the cards that states the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Figure(NamedTuple):
    """The kernel of `card` with `edits` in its text takes `us` microseconds on v5e; `says` maps cards to the text that states it."""

    card: str
    edits: Mapping[str, str]
    sizes: tuple[int, ...]
    us: float
    says: Mapping[str, str]
    bottleneck: str = ""


DEFAULT_PRECISION = {"precision=jax.lax.Precision.HIGHEST, ": ""}


def matmul(block: str, size: int, us: float, bottleneck: str = "", **says: str) -> Figure:
    edits = {} if block == "512, 512, 512" else {"BM, BN, BK = 512, 512, 512": f"BM, BN, BK = {block}"}
    return Figure("matmul-blocks", edits, (size,) * 3, us, {name.replace("_", "-"): words for name, words in says.items()}, bottleneck)


def exact(block: int, us: float, **says: str) -> Figure:
    edits = {"BM, BN, BK = 256, 256, 512": f"BM, BN, BK = {block}, {block}, {block}"}
    return Figure("accumulate-matmul", edits, (1024,) * 3, us, {name.replace("_", "-"): words for name, words in says.items()})


FIGURES = [
    Figure(
        "one-dimensional-blocks", {"BLOCK = 1024": "BLOCK = 128"}, (4096,), 8.5, {"one-dimensional-blocks": "take 8.5 µs"}, "dma_latency"
    ),
    Figure("one-dimensional-blocks", {}, (4096,), 1.5, {"one-dimensional-blocks": "in 4 of 1024 1.5 µs"}),
    Figure("emit-pipeline", {}, (2048, 2048), 68.6, {"emit-pipeline": "68.6 µs"}, "hbm"),
    Figure(
        "larger-blocks",
        {"ROWS, COLS = 64, 512": "ROWS, COLS = 8, 128"},
        (2048, 2048),
        1058,
        {"larger-blocks": "1058 µs in blocks of 4 KiB", "elementwise-blocks": "| 8 × 128 | 4096 | 1058 µs |"},
        "dma_latency",
    ),
    Figure(
        "larger-blocks",
        {},
        (2048, 2048),
        69,
        {"larger-blocks": "69 µs from 128 KiB on", "elementwise-blocks": "| 64 × 512 | 128 | 69 µs |"},
        "hbm",
    ),
    matmul("128, 128, 128", 1024, 181, fewer_steps="512 steps of 128³ take 181 µs", matmul_blocks="| 128 × 128 × 128 | 181 |"),
    matmul("256, 256, 256", 1024, 39, matmul_blocks="| 256 × 256 × 256 | 39 |"),
    matmul("512, 512, 512", 1024, 19, fewer_steps="8 steps of 512³ 19 µs", matmul_blocks="| 1024 | 512 × 512 × 512 | 19 |"),
    matmul("512, 512, 512", 2048, 123, matmul_blocks="| 2048 | 512 × 512 × 512 | 123 |"),
    exact(128, 237, matmul_blocks="237 µs with blocks of 128³"),
    exact(256, 84, matmul_blocks="84 with 256³", matmul_precision="84 µs (256³ blocks)"),
    Figure(
        "accumulate-matmul",
        {"BM, BN, BK = 256, 256, 512": "BM, BN, BK = 256, 256, 256", **DEFAULT_PRECISION},
        (1024,) * 3,
        54,
        {"matmul-precision": "54 µs (256³ blocks)"},
    ),
    Figure("matmul-float32", {}, (256, 512, 256), 4.3, {"matmul-float32": "4.3 µs in two steps"}),
    Figure("matmul-float32", {"BM, BN = 128, 256": "BM, BN = 256, 256"}, (256, 512, 256), 4.7, {"matmul-float32": "4.7 in one step"}),
    Figure(
        "matmul-float32", {"BM, BN = 128, 256": "BM, BN = 128, 128"}, (256, 512, 256), 4.7, {"matmul-float32": "4.7 in four of 128 × 128"}
    ),
    Figure("softmax-rows", {}, (2048, 4096), 91, {"softmax-rows": "91 µs in blocks of 128 rows"}, "hbm"),
    Figure("softmax-rows", {"ROWS = 128": "ROWS = 8"}, (2048, 4096), 128, {"softmax-rows": "128 µs in blocks of 8"}),
    Figure("layernorm-rows", {}, (2048, 4096), 91, {"layernorm-rows": "91 µs in blocks of 128 rows"}, "hbm"),
    Figure("row-sums", {}, (4096, 256), 6.8, {"row-sums": "take 6.8 µs"}),
    Figure("top-k-rows", {}, (512, 1024, 8), 8.3, {"top-k-rows": "take 8.3 µs in blocks of 128 rows"}),
    Figure("top-k-rows", {"ROWS = 128": "ROWS = 32"}, (512, 1024, 8), 21.7, {"top-k-rows": "21.7 in blocks of 32"}, "schedule"),
    Figure(
        "top-k-rows",
        {"1).astype(jnp.float32)": "1)", "float(cols)": "cols", "jnp.zeros((block, k))\n": "jnp.zeros((block, k), jnp.int32)\n"},
        (512, 1024, 8),
        11.5,
        {"top-k-rows": "on int32: 11.5 µs"},
    ),
    Figure("resize-products", {}, (2, 32, 48, 64, 84, 100), 16.2, {"resize-products": "takes 16.2 µs"}),
    Figure("resize-products", {}, (4, 64, 128, 128, 256, 256), 211, {"resize-products": "only the MXU counts"}, "mxu"),
    Figure("quantise-rows", {}, (4096, 2048), 57.6, {"quantise-rows": "take 57.6 µs"}, "hbm"),
    Figure("optimiser-step", {}, (2048, 2048), 160, {"optimiser-step": "2048 × 2048: 160 µs"}, "hbm"),
    Figure("gather-rows", {}, (8192, 256, 16, 256), 32.7, {"gather-rows": "32.7 µs"}),
    Figure("scatter-rows", {}, (512, 8192, 96), 26.9, {"scatter-rows": "take 26.9 µs into 512 rows"}),
    Figure("scatter-rows", {}, (2048, 8192, 96), 78.8, {"scatter-rows": "and 78.8 µs into"}),
    Figure("bfloat16-elementwise", {}, (1024, 1024), 6.6, {"bfloat16-elementwise": "6.6 µs that way"}),
    Figure(
        "bfloat16-elementwise", {".astype(jnp.float32)": ""}, (1024, 1024), 7.6, {"bfloat16-elementwise": "7.6 with bfloat16 in between"}
    ),
    Figure("small-operators", {"STEPS = 2": "STEPS = 1"}, (512, 512), 3.8, {"small-operators": "| µs | 3.8 |"}),
    Figure("small-operators", {}, (512, 512), 3.2, {"small-operators": "| 3.8 | 3.2 |"}),
    Figure("small-operators", {"STEPS = 2": "STEPS = 8"}, (512, 512), 4.0, {"small-operators": "| 3.4 | 4.0 |"}),
    Figure("small-operators", {"STEPS = 2": "STEPS = 64"}, (512, 512), 17.6, {"small-operators": "| 5.7 | 17.6 |"}, "dma_latency"),
    Figure("transposed-storage", {}, (1024, 1000), 11.5, {"transposed-storage": "instead of 11.5"}, "hbm"),
    Figure(
        "transposed-storage",
        {"swap = padded(x.shape[0], x.shape[1]) < padded(x.shape[1], x.shape[0])": "swap = False"},
        (1024, 1000),
        14.9,
        {"transposed-storage": "takes 14.9 µs"},
    ),
    Figure("tiles-and-padding", {}, (4, 32, 64, 64), 11.7, {"tiles-and-padding": "takes 11.7 µs"}),
    Figure("transposing-blocks", {}, (1024, 1024), 12.3, {"transposing-blocks": "12.3 µs"}),
    Figure("live-values", {}, (256, 256), 4.1, {"live-values": "takes 4.1 µs on whole blocks"}),
    Figure(
        "live-values", {"ROWS, STRIP = 128, 128": "ROWS, STRIP = 128, 32"}, (256, 256), 11.3, {"live-values": "11 in strips of 32 rows"}
    ),
    Figure(
        "live-values", {"ROWS, STRIP = 128, 128": "ROWS, STRIP = 128, 8"}, (256, 256), 36, {"live-values": "36 in strips of 8"}, "schedule"
    ),
    Figure("independent-rows", {"ROWS, SUMS = 2048, 8": "ROWS, SUMS = 2048, 1"}, (8192, 128), 8.2, {"independent-rows": "takes 8.2 µs"}),
    Figure("independent-rows", {}, (8192, 128), 6.7, {"independent-rows": "through eight 6.7"}),
    Figure("shifts-on-leading-axes", {}, (40, 8, 256), 1.7, {"shifts-on-leading-axes": "1.7 µs along the leading axis"}),
    Figure(
        "shifts-on-leading-axes",
        {"AXIS, TAPS = 0, 9": "AXIS, TAPS = 1, 9"},
        (8, 40, 256),
        1.9,
        {"shifts-on-leading-axes": "1.9 along rows"},
    ),
    Figure(
        "shifts-on-leading-axes",
        {"AXIS, TAPS = 0, 9": "AXIS, TAPS = 2, 9"},
        (32, 8, 264),
        3.1,
        {"shifts-on-leading-axes": "3.1 along lanes"},
    ),
    Figure("three-pass-matmul", {}, (1024,) * 3, 65, {"three-pass-matmul": "65 µs instead of 84"}),
    Figure("attention-online", {}, (1024, 1024, 64, 64), 24, {"attention-online": "24 µs"}),
    Figure(
        "attention-online",
        {"QUERIES, KEYS = 256, 512": "QUERIES, KEYS = 128, 128"},
        (1024, 1024, 64, 64),
        55,
        {"attention-online": "in blocks of 128 × 128 55"},
    ),
    Figure(
        "double-buffering",
        {"ROWS, DEPTH = 64, 3": "ROWS, DEPTH = 64, 1"},
        (2048, 512),
        26.5,
        {"double-buffering": "one buffer 26.5 µs"},
        "dma_latency",
    ),
    Figure(
        "double-buffering",
        {"ROWS, DEPTH = 64, 3": "ROWS, DEPTH = 64, 2"},
        (2048, 512),
        13.9,
        {"double-buffering": "two (as a grid has) 13.9"},
    ),
    Figure("double-buffering", {}, (2048, 512), 11.9, {"double-buffering": "three 11.9"}, "hbm"),
]
