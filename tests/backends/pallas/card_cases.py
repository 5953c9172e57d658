"""Test cases for the kernels on the pallas cards: inputs of given sizes, and the expected result in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import torch
import torch.nn.functional as F

Sizes = tuple[int, ...]
RANDOM = np.random.default_rng(7)
_empty = False


@contextmanager
def shapes_only() -> Iterator[None]:
    """A context in which inputs are zeros, so that large ones are cheap to create."""
    global _empty
    _empty = True
    try:
        yield
    finally:
        _empty = False


class Case(NamedTuple):
    """The test runs `ragged` sizes and compiles `bench` sizes."""

    inputs: Callable[..., list[Any]]
    answer: Callable[..., Any]
    ragged: Sizes
    bench: Sizes


def normal(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32) if _empty else RANDOM.normal(size=shape).astype(np.float32)


def half(*shape: int) -> np.ndarray:
    """bfloat16 values."""
    return normal(*shape).astype(ml_dtypes.bfloat16)


def index(limit: int, *shape: int) -> np.ndarray:
    return np.zeros(shape, np.int32) if _empty else RANDOM.integers(0, limit, size=shape).astype(np.int32)


def scattered(rows: int, count: int, dim: int) -> list[Any]:
    """A table, indices of its rows with repetitions, and rows to add."""
    return [normal(rows, dim), index(rows, count), normal(count, dim)]


def add_rows(x: np.ndarray, targets: np.ndarray, source: np.ndarray) -> np.ndarray:
    result = x.astype(float)
    np.add.at(result, targets, source.astype(float))
    return result


def in_float64(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A PyTorch function in double precision, on arrays."""

    def answer(*arrays: Any) -> Any:
        tensors = [
            torch.from_numpy(np.asarray(a, np.float64 if a.dtype.kind in "fV" else np.int64)) if hasattr(a, "shape") else a for a in arrays
        ]
        return function(*tensors).numpy()

    return answer


def recurrence(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    states = [np.zeros(x.shape[1])]
    for factor, addend in zip(a.astype(float), x.astype(float), strict=True):
        states.append(factor * states[-1] + addend)
    return np.array(states[1:])


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.asarray(in_float64(lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None])[0])(q, k, v))


def sharpen(x: np.ndarray) -> np.ndarray:
    start = y = torch.from_numpy(x).double()
    for factor in range(1, 9):
        y = (y * factor).softmax(1) + start
    return np.asarray(y)


def decaying_sum(x: np.ndarray, decay: float) -> np.ndarray:
    """Eight sums, each over every eighth tile of 8 rows of a block of 2048 rows."""
    padded = np.pad(x.astype(float), ((0, -len(x) % 2048), (0, 0))).reshape(-1, 32, 8, 8, x.shape[1])
    weights = decay ** np.arange(31, -1, -1)
    return np.asarray(np.einsum("t,btkrc->brc", weights, padded).reshape(-1, x.shape[1]))


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(a.astype(float) @ b.astype(float))


def largest(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and columns, of equal values the first column first."""
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(x, order, 1), order


def spread(rows: int, cols: int) -> np.ndarray:
    """Rows of very different magnitude; one is zero, one falls on halves."""
    x = normal(rows, cols) * np.exp2(5 * normal(rows, 1))
    x[0], x[1] = 0, np.arange(cols) % 17 / 2 + 120
    return np.asarray(x, np.float32)


def quantise_rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scale = np.ldexp(1.0, np.frexp(np.abs(x).max(1))[1] - 7)
    return np.clip(np.round(x / scale[:, None]), -127, 127).astype(np.int8), scale


def adamw(w: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray, *numbers: float) -> tuple[np.ndarray, ...]:
    step, rate, beta1, beta2, decay, eps = numbers
    w, g = w.astype(float), g.astype(float)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    update = m / (1 - beta1**step) / (np.sqrt(v / (1 - beta2**step)) + eps)
    return w * (1 - rate * decay) - rate * update, m, v


CASES: dict[str, Case] = {
    "entry-point": Case(lambda b, r, c: [normal(b, r, c), 0.5], lambda x, s: x.astype(float) * s, (3, 101, 130), (2, 256, 256)),
    "pallas-call": Case(lambda r, c: [normal(r, c), normal(r, c)], lambda a, b: (a + b, a * b), (259, 77), (512, 256)),
    "block-spec": Case(lambda b, r, c: [normal(b, r, c), normal(b, c)], lambda x, y: x + y[:, None], (3, 257, 33), (4, 256, 128)),
    "one-dimensional-blocks": Case(lambda n: [normal(n)], lambda x: x * x, (2500,), (4096,)),
    "grid-order": Case(lambda k, m, n: [normal(k, m, n)], lambda x: x.astype(float).sum(0), (3, 70, 33), (4, 128, 128)),
    "dimension-semantics": Case(lambda r, c: [normal(r, c)], lambda x: np.abs(x.astype(float)).sum(1), (131, 700), (256, 1024)),
    "program-id-when": Case(
        lambda r, c: [normal(r, c)],
        lambda x: (x * np.where(np.arange(len(x))[:, None] // 64 % 2 == 0, 1, -1), np.full((1, x.shape[1]), 7.0)),
        (130, 33),
        (256, 128),
    ),
    "scratch-memory": Case(lambda r, c: [normal(r, c)], lambda x: x.astype(float).mean(0), (301, 77), (1024, 256)),
    "raised-vmem-limit": Case(
        lambda m, k, n: [half(m, k), half(k, n)], lambda x, y: x.astype(float) @ y.astype(float), (261, 40, 130), (512, 128, 128)
    ),
    "buffer-count": Case(lambda m, k, n: [normal(m, k), normal(k, n)], lambda x, y: x.astype(float) @ y, (131, 40, 50), (256, 128, 128)),
    "smem-scalars": Case(lambda r, c: [normal(r, c), normal()], lambda x, s: x * s, (301, 77), (512, 256)),
    "scalar-prefetch": Case(lambda b, r, c: [normal(b, r, c), index(b, b + 1)], lambda x, k: x[k], (3, 5, 33), (4, 16, 128)),
    "async-copy": Case(lambda r, c: [normal(r, c)], lambda x: np.tanh(x.astype(float)), (16, 128), (64, 256)),
    "emit-pipeline": Case(lambda r, c: [normal(r, c), normal(r, c)], lambda a, b: a + b, (261, 77), (2048, 2048)),
    "matmul-precision": Case(lambda m, k, n: [normal(m, k), normal(k, n)], product, (33, 70, 45), (128, 128, 128)),
    "three-pass-matmul": Case(lambda m, k, n: [normal(m, k), normal(k, n)], product, (33, 300, 45), (1024, 1024, 1024)),
    "dot-general-forms": Case(
        lambda m, k, n: [normal(m, k), normal(n, k)], lambda x, w: x.astype(float) @ w.T, (131, 70, 257), (128, 128, 256)
    ),
    "slices-of-refs": Case(lambda h, w, c: [normal(2 * h, w, c)], lambda x: np.maximum(x[0::2], x[1::2]), (3, 5, 33), (8, 16, 128)),
    "dynamic-offsets": Case(lambda r, c: [normal(r, c)], lambda x: x * (1 + np.arange(x.shape[1]) // 128), (5, 300), (64, 512)),
    "loops": Case(lambda r, c: [normal(r, c)], lambda x: x.max(0), (37, 130), (64, 256)),
    "iota-masks": Case(
        lambda r, c: [normal(r, c)],
        lambda x: np.where(np.arange(x.shape[1]) <= np.arange(len(x))[:, None], x, -1e30),
        (131, 77),
        (256, 256),
    ),
    "roll-lanes": Case(lambda r, c: [normal(r, c)], lambda x: x - np.pad(x, ((0, 0), (1, 0)))[:, :-1], (5, 300), (64, 256)),
    "elementwise-blocks": Case(
        lambda r, c: [normal(r, c), normal(c), normal(c)], lambda x, a, b: np.tanh(x.astype(float) * a + b), (2051, 130), (512, 1024)
    ),
    "larger-blocks": Case(lambda r, c: [normal(r, c), normal(r, c)], lambda a, b: a + b, (70, 600), (2048, 2048)),
    "fewer-steps": Case(lambda b, r, c: [normal(b, r, c), normal(r, c)], lambda x, y: x * y, (19, 7, 33), (32, 16, 128)),
    "matmul-blocks": Case(lambda m, k, n: [half(m, k), half(k, n)], product, (40, 600, 70), (1024, 1024, 1024)),
    "matmul-float32": Case(lambda m, k, n: [normal(m, k), normal(k, n)], product, (131, 77, 260), (256, 512, 256)),
    "linear-epilogue": Case(
        lambda m, k, n: [normal(m, k), normal(n, k), normal(n)],
        in_float64(lambda x, w, b: F.gelu(F.linear(x, w, b))),
        (131, 33, 259),
        (128, 128, 256),
    ),
    "batched-matmul": Case(lambda b, m, k, n: [normal(b, m, k), normal(b, k, n)], product, (9, 13, 33, 7), (16, 32, 128, 32)),
    "softmax-rows": Case(lambda r, c: [4 * normal(r, c)], in_float64(lambda x: x.softmax(1)), (131, 77), (2048, 4096)),
    "softmax-long-rows": Case(lambda r, c: [4 * normal(r, c)], in_float64(lambda x: x.softmax(1)), (67, 4500), (64, 4096)),
    "layernorm-rows": Case(
        lambda r, c: [normal(r, c) * 2 + 9, normal(c), normal(c)],
        in_float64(lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b)),
        (131, 77),
        (2048, 4096),
    ),
    "rmsnorm-rows": Case(
        lambda r, c: [normal(r, c), normal(c), 1e-5],
        in_float64(lambda x, w, e: x * (x.square().mean(1, keepdim=True) + e).rsqrt() * w),
        (259, 77),
        (512, 256),
    ),
    "groupnorm-blocks": Case(
        lambda n, c, h, w, g: [normal(n, c, h, w) + 3, normal(c), normal(c), g],
        in_float64(lambda x, w, b, g: F.group_norm(x, g, w, b)),
        (2, 6, 5, 7, 3),
        (2, 8, 16, 128, 2),
    ),
    "row-sums": Case(lambda r, c: [normal(r, c)], lambda x: x.astype(float).sum(1), (1300, 77), (4096, 256)),
    "column-sums": Case(lambda r, c: [normal(r, c)], lambda x: x.astype(float).sum(0), (700, 77), (1024, 256)),
    "reduce-to-one-number": Case(
        lambda r, c: [normal(r, c), normal(r, c)], in_float64(lambda a, b: F.mse_loss(a, b)), (300, 77), (512, 256)
    ),
    "edge-blocks": Case(lambda m, k, n: [normal(m, k), normal(k, n)], product, (13, 600, 45), (64, 512, 128)),
    "convolution-columns": Case(
        lambda n, c, h, w, o, k: [normal(n, c, h, w), normal(o, c, k, k), normal(o)],
        in_float64(lambda x, w, b: F.conv2d(x, w, b, padding=w.shape[2] // 2)),
        (2, 5, 7, 9, 6, 3),
        (1, 8, 12, 14, 8, 3),
    ),
    "pooling-windows": Case(
        lambda n, c, h, w, k, s, p: [normal(n, c, h, w), k, s, p],
        in_float64(lambda x, k, s, p: F.max_pool2d(x, k, s, p)),
        (2, 3, 9, 12, 3, 2, 1),
        (2, 64, 16, 16, 3, 2, 1),
    ),
    "cumulative-sum": Case(lambda r, c: [normal(r, c)], lambda x: x.astype(float).cumsum(1), (131, 300), (128, 256)),
    "scan-over-rows": Case(lambda t, c: [normal(t, c) / 3, normal(t, c)], recurrence, (100, 33), (128, 256)),
    "argmax-rows": Case(lambda r, c: [index(9, r, c).astype(np.float32)], lambda x: x.argmax(1), (1030, 77), (1024, 256)),
    "top-k-rows": Case(lambda r, c, k: [index(99, r, c).astype(np.float32), k], largest, (131, 77, 5), (512, 1024, 8)),
    "resize-products": Case(
        lambda n, c, h, w, height, width: [normal(n, c, h, w), height, width],
        in_float64(lambda x, height, width: F.interpolate(x, (height, width), mode="bilinear")),
        (3, 5, 13, 17, 30, 11),
        (2, 32, 48, 64, 84, 100),
    ),
    "quantise-rows": Case(lambda r, c: [spread(r, c)], quantise_rows, (131, 77), (4096, 2048)),
    "optimiser-step": Case(
        lambda r, c: [normal(r, c), normal(r, c), normal(r, c), 0.1 + np.abs(normal(r, c)), 10, 0.1, 0.9, 0.95, 0.1, 1e-8],
        adamw,
        (1031, 130),
        (2048, 2048),
    ),
    "gather-rows": Case(lambda v, d, *n: [index(v, *n), normal(v, d)], lambda k, t: t[k], (37, 33, 3, 100), (8192, 256, 16, 256)),
    "scatter-rows": Case(scattered, add_rows, (2100, 600, 200), (512, 8192, 96)),
    "attention-short": Case(lambda q, k, d, e: [normal(q, d), normal(k, d), normal(k, e)], attention, (131, 45, 16, 9), (256, 128, 64, 64)),
    "attention-online": Case(
        lambda q, k, d, e: [normal(q, d), normal(k, d), normal(k, e)], attention, (257, 600, 16, 9), (1024, 1024, 64, 64)
    ),
    "cross-entropy": Case(lambda r, c: [3 * normal(r, c), index(c, r)], in_float64(F.cross_entropy), (131, 77), (256, 512)),
    "gelu-forms": Case(lambda r, c: [3 * normal(r, c)], in_float64(F.silu), (259, 77), (512, 256)),
    "fuse-passes": Case(
        lambda r, c: [normal(r, c), normal(r, c), normal(c)],
        in_float64(lambda x, y, w: F.relu(F.layer_norm(x + y, w.shape) * w)),
        (131, 77),
        (256, 512),
    ),
    "two-passes-one-kernel": Case(
        lambda r, c: [normal(r, c) * 2 + 9], in_float64(lambda x: F.batch_norm(x, None, None, training=True)), (300, 77), (512, 256)
    ),
    "double-buffering": Case(lambda r, c: [normal(r, c)], lambda x: np.tanh(x.astype(float)), (300, 77), (2048, 512)),
    "live-values": Case(lambda r, c: [normal(r, c)], sharpen, (130, 77), (256, 256)),
    "independent-rows": Case(lambda r, c: [normal(r, c), 0.5], decaying_sum, (2100, 33), (8192, 128)),
    "shifts-on-leading-axes": Case(
        lambda t, r, c: [normal(t, r, c)], lambda x: sum((k + 1.0) * x[k : len(x) - 8 + k] for k in range(9)), (13, 5, 33), (40, 8, 256)
    ),
    "functions-before-broadcast": Case(
        lambda r, c: [normal(r, c), normal(c)], in_float64(lambda x, d: x * (-F.softplus(d)).exp()), (300, 77), (512, 256)
    ),
    "function-costs": Case(lambda r, c: [normal(r, c)], in_float64(lambda x: F.normalize(x)), (300, 77), (256, 256)),
    "bfloat16-elementwise": Case(lambda r, c: [half(r, c)], in_float64(lambda x: F.gelu(x, approximate="tanh")), (131, 77), (1024, 1024)),
    "pad-or-mask": Case(lambda r, c: [normal(r, c)], lambda x: x.max(1), (259, 700), (256, 1024)),
    "small-operators": Case(lambda r, c: [normal(r, c)], lambda x: np.tanh(x.astype(float)), (37, 77), (512, 512)),
    "transposed-storage": Case(lambda r, c: [normal(r, c)], lambda x: np.tanh(x.astype(float)), (40, 9), (1024, 1000)),
    "tiles-and-padding": Case(lambda *s: [normal(*s)], lambda x: np.tanh(x.astype(float)), (2, 3, 5, 7), (4, 32, 64, 64)),
    "transposing-blocks": Case(lambda r, c: [normal(r, c)], lambda x: np.tanh(x.astype(float)).T, (70, 300), (1024, 1024)),
    "boolean-and-index-outputs": Case(
        lambda r, c: [normal(r, c)], lambda x: (x > 0, (x > 0).sum(1, keepdims=True).astype(np.int32)), (259, 77), (256, 256)
    ),
    "accumulate-matmul": Case(lambda m, k, n: [normal(m, k), normal(k, n)], product, (33, 700, 45), (128, 1024, 128)),
    "overlapping-blocks": Case(lambda r, c: [normal(r, c)], lambda x: x[:-2] + 2 * x[1:-1] + x[2:], (150, 77), (512, 256)),
}
