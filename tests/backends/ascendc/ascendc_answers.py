"""Expected results of the examples in the ascendc cards, by the name in their heading: the first elements of the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Inputs = dict[str, np.ndarray]
Answer = Callable[[Inputs], tuple[str, np.ndarray]]


def floats(answer: Callable[[np.ndarray], np.ndarray]) -> Answer:
    """An answer from x alone, in double precision, into y."""
    return lambda g: ("y", answer(g["x"].astype("float64")))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def gelu_erf(x: np.ndarray) -> np.ndarray:
    return np.asarray([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x])


def silu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / (1 + np.exp(-x)))


def rows_padded(x: np.ndarray) -> np.ndarray:
    rows = np.full((7, 8), -1.0)
    rows[:, :5] = x.reshape(7, 11)[:, :5]
    return rows.ravel()


def rows_spread(g: Inputs) -> tuple[str, np.ndarray]:
    rows = np.full((7, 11), 1e30)
    rows[:, :5] = 3.0
    return "y", rows.ravel()


def scalars(x: np.ndarray) -> np.ndarray:
    y = 3 - x
    return np.asarray(np.where(y > 0, y, 0.1 * y) + 2 * x)


def layernorm(g: Inputs) -> tuple[str, np.ndarray]:
    x = g["x"].astype("float64")
    return "y", (x - x.mean()) / np.sqrt(x.var() + 1e-5) * g["w"] + 0.5


def multiply_adds(g: Inputs) -> tuple[str, np.ndarray]:
    x, w = g["x"].astype("float64"), g["w"].astype("float64")
    return "y", np.maximum(x * (1 + x * w) + w + w, 0)


def shares(g: Inputs) -> tuple[str, np.ndarray]:
    counts = np.array([3 if core < 4 else 2 for core in range(48)])
    return "yi", (np.cumsum(counts) - counts) * 10 + counts


def argmax_rows(g: Inputs) -> tuple[str, np.ndarray]:
    return "yi", np.stack([g["x"].reshape(7, 50).argmax(1), np.zeros(7)], 1).ravel()


def integers(*values: int) -> Answer:
    return lambda g: ("yi", np.array(values))


ANSWERS: dict[str, Answer] = {
    "twice": floats(lambda x: 2 * x),
    "thrice": floats(lambda x: 3 * x),
    "squares": floats(lambda x: x * x),
    "padded": integers(*[16032] * 8),
    "reversed-halves": floats(lambda x: np.concatenate([x[32:64], x[:32]])),
    "scaled-by-first": floats(lambda x: x * x[0]),
    "scaled-by-second": lambda g: ("y", g["x"] * g["w"][1]),
    "from-seventh": floats(lambda x: x[7:]),
    "rows-padded": floats(rows_padded),
    "rows-spread": rows_spread,
    "left-half": floats(lambda x: x.reshape(4, 32)[:, :16].ravel()),
    "times-row": lambda g: ("y", (g["x"].reshape(5, 128) * g["w"][:128]).ravel()),
    "alternating": floats(lambda x: x * np.tile([1, -1], x.size // 2)),
    "integers": lambda g: ("yi", np.maximum(3 * (g["i"] - 2), 0)),
    "scalars": floats(scalars),
    "half-scalars": lambda g: ("yh", g["h"] / 2),
    "sevens": floats(lambda x: np.full_like(x, 7)),
    "newton-step": floats(lambda x: 1 / (1 + np.abs(x))),
    "sigmoid": floats(lambda x: 1 / (1 + np.exp(-x))),
    "floor": floats(np.floor),
    "two-halves": floats(lambda x: x),
    "positive": floats(lambda x: (x > 0) * 1.0),
    "bend": floats(lambda x: np.where(x < 0.5, x, 0.25 * x)),
    "sum": floats(lambda x: x.sum(keepdims=True)),
    "argmax": lambda g: ("yi", g["x"].argmax(keepdims=True)),
    "row-sums": floats(lambda x: x.reshape(12, 40)[:, :37].sum(1)),
    "row-maxima": floats(lambda x: x.reshape(10, 64).max(1)),
    "block-sums": floats(lambda x: x.reshape(16, 8).sum(1)),
    "pair-sums": floats(lambda x: x.reshape(64, 2).sum(1)),
    "reversed": floats(lambda x: x[::-1]),
    "rows-scaled": lambda g: ("y", (g["x"].reshape(8, 64) * g["w"][:8, None]).ravel()),
    "transposed": lambda g: ("yh", g["h"].reshape(16, 16).T.ravel()),
    "silu": floats(silu),
    "tanh": floats(np.tanh),
    "gelu-tanh": floats(gelu_tanh),
    "gelu-erf": floats(gelu_erf),
    "half-stays": lambda g: ("yh", np.full(16, 2048)),
    "one-store": lambda g: ("y", np.arange(64)),
    "per-core": integers(*[2176] * 8),
    "added": lambda g: ("y", g["x"] + g["w"]),
    "shares": shares,
    "padded-maximum": floats(lambda x: x.reshape(10, 5).max(1)),
    "softmax": floats(softmax),
    "log-sum-exp": floats(lambda x: np.log(np.exp(x).sum(keepdims=True))),
    "sums-of-192": floats(lambda x: x.reshape(10, 192).sum(1)),
    "silu-half": lambda g: ("yh", silu(g["h"].astype("float64"))),
    "three-taps": lambda g: ("y", 0.5 * g["x"] - g["w"] + 6 * g["x"]),
    "multiply-adds": multiply_adds,
    "few-blocks": integers(*[20148] * 8),
    "layernorm": layernorm,
    "column-sums": floats(lambda x: x.reshape(10, 40)[:, :37].sum(0)),
    "masked": lambda g: ("y", g["x"] * g["b"]),
    "narrowed": lambda g: ("yi", g["l"]),
    "gathered": lambda g: ("y", g["x"].reshape(5, 64)[g["i"][:5]].ravel()),
    "argmax-rows": argmax_rows,
    "sliding-maximum": floats(lambda x: np.max([x[k : k + 100] for k in range(4)], 0)),
    "softplus": floats(lambda x: np.log1p(np.exp(x))),
    "hardsigmoid": floats(lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "elu": floats(lambda x: np.where(x > 0, x, 1.5 * (np.exp(x) - 1))),
    "meet": lambda g: ("y", np.repeat(np.arange(8), 8)),
    "counted": lambda g: ("y", np.full(64, 8)),
}

FASTER = [  # card, price of the better way, price of the other, by how much at least
    ("scalar-access-ub", "add-vector", "add-scalar", 10),
    ("scalar-access-gm", "gm-copied", "gm-loop", 10),
    ("vector-not-scalar", "relu-vector", "relu-scalar", 10),
    ("double-buffering", "two-buffers", "one-buffer", 1.3),
    ("pipe-barrier", "two-buffers", "barrier-in-loop", 1.3),
    ("copy-size", "copies-of-16k", "copies-of-1k", 4),
    ("tile-size", "large-tiles", "small-tiles", 2),
    ("no-tiny-copies", "one-store", "many-stores", 5),
    ("bank-conflicts", "apart", "same-banks", 1.5),
    ("even-split", "all-cores", "one-block", 5),
    ("even-split", "all-cores", "too-many-blocks", 1.15),
    ("core-counts", "all-blocks", "eight-blocks", 1.5),
    ("precision", "div-quotient", "newton-quotient", 1.01),
    ("hoist-constants", "hoisted", "not-hoisted", 1.2),
    ("fuse-passes", "fused", "in-two-passes", 1.7),
    ("row-reductions", "rows-together", "row-by-row", 3),
    ("rows-in-one-call", "whole-tile", "each-row", 2.5),
    ("fused-multiply-add", "axpy", "muls-add", 1.3),
]
