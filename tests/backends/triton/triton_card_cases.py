"""For every complete kernel on a card of the triton backend: arguments of a size, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

Case = tuple[list[Any], list[torch.Tensor]]
SIZES = ((5, 131), (37, 70))
"""Rows and columns: neither divides a block."""
HALF = torch.float16


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def unary(function: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype = torch.float32) -> Callable[[int, int], Case]:
    """One input, one output."""

    def case(rows: int, columns: int) -> Case:
        x = drawn(rows, columns, dtype=dtype)
        return [x], [function(x.double()).to(dtype)]

    return case


def reduced(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[int, int], Case]:
    """One input; the output as the function gives it."""

    def case(rows: int, columns: int) -> Case:
        x = drawn(rows, columns) + 3.0
        wanted = function(x.double())
        return [x], [wanted.float() if wanted.is_floating_point() else wanted]

    return case


def product(rows: int, columns: int) -> Case:
    a, b = drawn(rows, 75), drawn(75, columns)
    return [a, b], [(a.double() @ b.double()).float()]


def int8_product(rows: int, columns: int) -> Case:
    a, b = torch.randint(-100, 100, (rows, 75), dtype=torch.int8), torch.randint(-100, 100, (75, columns), dtype=torch.int8)
    scale = drawn(columns)
    return [a, b, scale], [((a.double() @ b.double()) * scale).float()]


def batched(rows: int, columns: int) -> Case:
    a, b = drawn(3, rows, 45), drawn(3, 45, columns)
    return [a, b], [(a.double() @ b.double()).float()]


def linear_relu(rows: int, columns: int) -> Case:
    x, weight, bias = drawn(rows, 50), drawn(columns, 50), drawn(columns)
    return [x, weight, bias], [F.relu(F.linear(x.double(), weight.double(), bias.double())).float()]


def scores(rows: int, columns: int) -> Case:
    q, k = drawn(rows, 24), drawn(columns, 24)
    return [q, k], [(q.double() @ k.double().T).float()]


def attention(rows: int, columns: int) -> Case:
    q, k, v = drawn(2, rows, 24), drawn(2, columns, 24), drawn(2, columns, 24)
    return [q, k, v], [F.scaled_dot_product_attention(q.double(), k.double(), v.double()).float()]


def causal(rows: int, columns: int) -> Case:
    s = drawn(columns, columns)
    hidden = torch.ones(columns, columns).triu(1).bool()
    return [s], [s.double().masked_fill(hidden, -torch.inf).logsumexp(1).float()]


def scaled(rows: int, columns: int) -> Case:
    x, weight = drawn(rows, columns), drawn(columns)
    return [x, weight], [x * weight]


def entry_point(rows: int, columns: int) -> Case:
    (x, weight), (wanted,) = scaled(rows, columns)
    return [x, weight, 0.5], [0.5 * wanted]


def shifted(rows: int, columns: int) -> Case:
    x, bias = drawn(rows, columns), drawn(columns)
    return [x, bias], [x + bias]


def gelu_bias(rows: int, columns: int) -> Case:
    x, bias = drawn(rows, columns), drawn(columns)
    return [x, bias], [F.gelu((x + bias).double(), approximate="tanh").float()]


def affine(rows: int, columns: int) -> Case:
    x, weight, bias = drawn(10 * rows, columns), drawn(columns), drawn(columns)
    return [x, weight, bias], [x * weight + bias]


def added(rows: int, columns: int) -> Case:
    a, b = drawn(rows, columns), drawn(rows, columns)
    return [a, b], [a + b]


def distance(rows: int, columns: int) -> Case:
    a, b = drawn(rows, columns), drawn(rows, columns)
    return [a, b], [F.mse_loss(a.double(), b.double()).float()]


def recurrence(rows: int, columns: int) -> Case:
    a, b = torch.rand(rows, 20 * columns), drawn(rows, 20 * columns)
    h, steps = torch.zeros(rows).double(), []
    for one, other in zip(a.double().unbind(1), b.double().unbind(1)):
        h = one * h + other
        steps.append(h)
    return [a, b], [torch.stack(steps, 1).float()]


def cumsum(rows: int, columns: int) -> Case:
    x = drawn(rows, 40 * columns)
    return [x], [x.double().cumsum(1).float()]


def smoothed(rows: int, columns: int) -> Case:
    x = drawn(rows, 10 * columns)
    return [x], [F.avg_pool1d(x.double(), 5, stride=1, padding=2).float()]


def mixed(rows: int, columns: int) -> Case:
    x, mask = drawn(rows, columns, dtype=HALF), torch.rand(rows, columns) > 0.5
    return [x, mask, -2.0], [torch.where(mask, x, torch.tensor(-2.0, dtype=HALF))]


def counted(rows: int, columns: int) -> Case:
    x = torch.randint(0, rows, (columns, rows))
    return [x], [torch.bincount(x.flatten(), minlength=rows)]


def banded(rows: int, columns: int) -> Case:
    x = drawn(rows, columns)
    return [x, 3], [x.tril(3).triu(-3)]


def top_k(rows: int, columns: int) -> Case:
    x = drawn(rows, columns)
    return [x, 5], list(x.topk(5))


def layer_norm(rows: int, columns: int) -> Case:
    x, weight, bias = 10 + drawn(rows, columns), drawn(columns), drawn(columns)
    return [x, weight, bias], [F.layer_norm(x.double(), (columns,), weight.double(), bias.double()).float()]


def rms_norm(rows: int, columns: int) -> Case:
    x, weight = drawn(rows, columns), drawn(columns)
    return [x, weight, 1e-6], [F.rms_norm(x.double(), (columns,), weight.double(), 1e-6).float()]


def instance_norm(rows: int, columns: int) -> Case:
    x = 10 + drawn(2, 3, rows * 9, columns)
    return [x, 1e-5], [F.instance_norm(x.double(), eps=1e-5).float()]


def cross_entropy(rows: int, columns: int) -> Case:
    x, label = drawn(rows, columns), torch.randint(0, columns, (rows,))
    return [x, label], [F.cross_entropy(x.double(), label).float()]


def residual(rows: int, columns: int) -> Case:
    x, other, weight = drawn(rows, columns), drawn(rows, columns), drawn(columns)
    wanted = F.rms_norm(F.silu((x + other).double()), (columns,), weight.double(), 1e-6)
    return [x, other, weight, 1e-6], [wanted.float()]


def convolution(rows: int, columns: int) -> Case:
    x, weight = drawn(2, rows, 9, 11), drawn(35, rows, 3, 2)
    return [x, weight, 2, 1], [F.conv2d(x.double(), weight.double(), stride=2, padding=1).float()]


def pooling(rows: int, columns: int) -> Case:
    x = drawn(2, 3, rows, columns)
    return [x, 3, 2, 1], [F.max_pool2d(x, 3, 2, 1)]


def resize(rows: int, columns: int) -> Case:
    x = drawn(2, 3, rows, columns)
    return [x], [F.interpolate(x, (rows * 2 + 1, columns // 2), mode="bilinear")]


def embedding(rows: int, columns: int) -> Case:
    index, table = torch.randint(0, rows, (7, 3)), drawn(rows, 5 * columns)
    return [index, table], [table[index]]


def scattered(rows: int, columns: int) -> Case:
    x, index, source = drawn(rows, columns), torch.randint(0, rows, (150,)), drawn(150, columns)
    return [x, index, source], [x.double().index_add(0, index, source.double()).float()]


def concatenated(rows: int, columns: int) -> Case:
    a, b = drawn(rows, columns), drawn(rows, 5 * columns)
    return [a, b], [torch.cat([a, b], 1)]


def exp2_softmax(rows: int, columns: int) -> Case:
    x = drawn(rows, columns)
    return [x, 0.3], [(0.3 * x.double()).softmax(1).float()]


def argmax(rows: int, columns: int) -> Case:
    x = torch.randint(0, 9, (rows, 30 * columns)).float()
    return [x], [x.argmax(1)]


def quantised(rows: int, columns: int) -> Case:
    x = drawn(rows, columns)
    scale = x.abs().amax(1).clamp(min=1e-8) / 127
    return [x], [(x / scale[:, None]).round().clamp(-127, 127).to(torch.int8), scale]


def adam(rows: int, columns: int) -> Case:
    p, g, m, v = (drawn(rows, columns) for _ in range(4))
    v = v.abs()
    m1, v1 = 0.9 * m.double() + 0.1 * g.double(), 0.99 * v.double() + 0.01 * g.double() ** 2
    step = p.double() - 0.01 * (m1 / (1 - 0.9**3)) / ((v1 / (1 - 0.99**3)).sqrt() + 1e-8)
    return [p, g, m, v, 0.01, 0.9, 0.99, 1e-8, 3], [step.float(), m1.float(), v1.float()]


def long_rows(rows: int, columns: int) -> Case:
    x = drawn(rows, 70 * columns)
    return [x], [x.double().softmax(1).float()]


CASES: dict[str, Callable[[int, int], Case]] = {
    "activations": unary(F.mish, HALF),
    "argmax-long-rows": argmax,
    "associative-scan": recurrence,
    "atomics": counted,
    "autotune": unary(torch.square),
    "batched-matmul": batched,
    "block-pointers-are-gone": unary(lambda x: 2 * x),
    "cache-hints": scaled,
    "causal-blocks": causal,
    "column-sums": reduced(lambda x: x.sum(0)),
    "concatenate": concatenated,
    "constexpr-arguments": unary(F.gelu, HALF),
    "convolution-implicit": convolution,
    "cross-entropy": cross_entropy,
    "cumsum-rows": cumsum,
    "custom-reduce": reduced(lambda x: x.var(1, correction=0)),
    "debugging": unary(lambda x: x / 2),
    "divisibility-hints": unary(torch.abs),
    "dot": product,
    "dot-precision": product,
    "entry-point": entry_point,
    "even-sizes": product,
    "exp2-instead-of-exp": exp2_softmax,
    "flash-attention": attention,
    "flat-or-tiles": gelu_bias,
    "float32-inside": unary(lambda x: x - x.mean(1, keepdim=True), HALF),
    "float8-in-words": int8_product,
    "fuse-passes": residual,
    "gather-rows": embedding,
    "scatter-rows": scattered,
    "helper-functions": unary(F.silu, HALF),
    "heuristics": unary(lambda x: 3 * x),
    "int64-offsets": unary(torch.neg),
    "launch-overhead": distance,
    "layernorm-rows": layer_norm,
    "loops": smoothed,
    "masks-and-other": reduced(lambda x: x.amax(1) - x.amin(1)),
    "maths-functions": unary(torch.tanh),
    "matmul-epilogue": linear_relu,
    "matmul-grouped": lambda rows, columns: product(9 * rows, 3 * columns),
    "optimiser-step": adam,
    "persistent-programs": affine,
    "pointers-and-strides": reduced(lambda x: x.T.contiguous()),
    "pooling-windows": pooling,
    "powers-of-two": reduced(lambda x: x.sum(1)),
    "program-ids": added,
    "python-control-flow": banded,
    "quantise-rows": quantised,
    "reductions": reduced(lambda x: x.argmax(1)),
    "register-pressure": unary(lambda x: x / x.square().sum(1, keepdim=True).sqrt()),
    "resize-bilinear": resize,
    "rmsnorm-rows": rms_norm,
    "several-rows": reduced(lambda x: x.square().sum(1).sqrt()),
    "softmax-online": long_rows,
    "softmax-rows": unary(lambda x: x.softmax(1)),
    "software-pipelining": product,
    "sort-and-top-k": top_k,
    "specialisation": shifted,
    "split-k": product,
    "sum-in-two-launches": reduced(lambda x: x.mean()),
    "transpose-tiles": reduced(lambda x: x.T.contiguous()),
    "transposing-blocks": scores,
    "type-promotion": mixed,
    "warps-and-stages": reduced(lambda x: x.amax(1)),
    "welford-long-rows": instance_norm,
    "where-or-mask": unary(lambda x: torch.where(x > 0, x.clamp(min=1e-30).log(), 0.0)),
}
