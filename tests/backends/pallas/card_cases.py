"""What the kernels on the pallas backend's cards must compute: inputs of given sizes, and the answer in double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

Sizes = tuple[int, ...]
RANDOM = np.random.default_rng(7)


class Case(NamedTuple):
    """`ragged` sizes are run, `bench` sizes are compiled."""

    inputs: Callable[..., list[Any]]
    answer: Callable[..., Any]
    ragged: Sizes
    bench: Sizes


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def half(*shape: int) -> np.ndarray:
    """bfloat16 values."""
    import ml_dtypes

    return normal(*shape).astype(ml_dtypes.bfloat16)


def index(limit: int, *shape: int) -> np.ndarray:
    return RANDOM.integers(0, limit, size=shape).astype(np.int32)


def torched(function: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A PyTorch function in double precision, on arrays."""

    def answer(*arrays: Any) -> Any:
        tensors = [torch.from_numpy(np.asarray(a, np.float64 if a.dtype.kind in "fV" else np.int64)) if hasattr(a, "shape") else a for a in arrays]
        return function(*tensors).numpy()

    return answer


MATMUL = lambda a, b: a.astype(float) @ b.astype(float)
CASES: dict[str, Case] = {
    "entry-point": Case(lambda r, c: [normal(r, c), normal(c), 0.5], lambda x, w, s: x.astype(float) * w * s, (301, 130), (512, 256)),
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
    "raised-vmem-limit": Case(lambda m, k, n: [half(m, k), half(k, n)], lambda x, y: x.astype(float) @ y.astype(float), (261, 40, 130), (512, 128, 128)),
    "buffer-count": Case(lambda m, k, n: [normal(m, k), normal(k, n)], lambda x, y: x.astype(float) @ y, (131, 40, 50), (256, 128, 128)),
    "smem-scalars": Case(lambda r, c: [normal(r, c), normal()], lambda x, s: x * s, (301, 77), (512, 256)),
    "scalar-prefetch": Case(
        lambda b, r, c: [normal(b, r, c), index(c, b)],
        lambda x, n: np.where(np.arange(x.shape[2]) < n[:, None, None], x, 0),
        (3, 5, 33),
        (4, 16, 128),
    ),
    "async-copy": Case(lambda r, c: [normal(r, c)], lambda x: np.tanh(x.astype(float)), (16, 128), (64, 256)),
    "emit-pipeline": Case(lambda r, c: [normal(r, c), normal(r, c)], lambda a, b: a + b, (264, 128), (512, 256)),
    "matmul-precision": Case(lambda m, k, n: [normal(m, k), normal(k, n)], MATMUL, (33, 70, 45), (128, 128, 128)),
    "three-pass-matmul": Case(lambda m, k, n: [normal(m, k), normal(k, n)], MATMUL, (33, 300, 45), (256, 256, 256)),
    "dot-general-forms": Case(lambda m, k, n: [normal(m, k), normal(n, k)], lambda x, w: x.astype(float) @ w.T, (131, 70, 257), (128, 128, 256)),
    "slices-of-refs": Case(lambda h, w, c: [normal(2 * h, w, c)], lambda x: np.maximum(x[0::2], x[1::2]), (3, 5, 33), (8, 16, 128)),
    "dynamic-offsets": Case(lambda r, c: [normal(r, c)], lambda x: x * (1 + np.arange(x.shape[1]) // 128), (5, 300), (64, 512)),
    "loops": Case(lambda r, c: [normal(r, c)], lambda x: x.max(0), (37, 130), (64, 256)),
    "iota-masks": Case(
        lambda r, c: [normal(r, c)], lambda x: np.where(np.arange(x.shape[1]) <= np.arange(len(x))[:, None], x, -1e30), (131, 77), (256, 256)
    ),
    "roll-lanes": Case(lambda r, c: [normal(r, c)], lambda x: x - np.pad(x, ((0, 0), (1, 0)))[:, :-1], (5, 300), (64, 256)),
}
