"""How many multiply-adds an operator asks of the cube units, in blocks of 16 as they work."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from evokernel.reference.program import Step

SIDE = 16
"""Of the blocks the cube multiplies."""
Shape = tuple[int, ...]
MATRICES = {"matmul": 0, "mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "addbmm": 1}
"""Operators, and which of their tensors is the first factor."""
RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class Product(NamedTuple):
    """Work of the cube units."""

    macs: float = 0.0
    dtype: str = "float32"
    scores: int = 0
    """Elements of a softmax inside."""


def product(step: Step, op: str, given: Sequence[Shape], made: Sequence[Shape], dtype: str) -> Product | None:
    """None when the operator is no matrix product or convolution."""
    if op in MATRICES:
        left, right = given[MATRICES[op]], given[min(MATRICES[op] + 1, len(given) - 1)]
        return Product(matrices(left, right, made[0]), dtype)
    if op == "linear":
        rows, depth = prod(given[0][:-1]), given[1][-1]
        return Product(float(blocks(rows) * blocks(prod(given[1][:-1])) * blocks(depth)), dtype)
    if op.startswith("conv_transpose"):
        return Product(transposed(given[0], given[1], made[0]), dtype)
    if op.startswith("conv") and op[4:5].isdigit():
        return Product(convolution(given[0], given[1], made[0]), dtype)
    if op == "einsum":
        return contraction(step, given, made[0], dtype)
    if op in RECURRENT:
        steps = prod(given[0][:-1])
        return Product(float(steps * sum(blocks(prod(shape)) for shape in given[1:] if len(shape) == 2)), dtype)
    if op == "scaled_dot_product_attention":
        query, key, values = given[:3]
        scores = prod(query[:-1]) * key[-2]
        return Product(float(scores * (query[-1] + values[-1])), dtype, scores)
    return None


def blocks(extent: int) -> int:
    """Filled up to whole blocks."""
    return -(-extent // SIDE) * SIDE


def matrices(left: Shape, right: Shape, made: Shape) -> float:
    """Vectors count as matrices of one row or column; a matrix that serves a whole batch is multiplied once, with all rows."""
    depth = left[-1]
    rows = left[-2] if len(left) > 1 else 1
    wide = right[-1] if len(right) > 1 else 1
    batch = max(1, prod(made)) // max(1, rows * wide)
    if len(right) <= 2:
        rows, batch = rows * batch, 1
    return float(batch * blocks(rows) * blocks(wide) * blocks(depth))


def convolution(x: Shape, weight: Shape, made: Shape) -> float:
    """One product of matrices per group: positions by channels by window."""
    groups = max(1, x[-len(weight) + 1] // weight[1])
    positions = prod(made) // weight[0]
    return float(groups * blocks(positions) * blocks(weight[0] // groups) * blocks(prod(weight[1:])))


def transposed(x: Shape, weight: Shape, made: Shape) -> float:
    """The same the other way round: positions of the input."""
    groups = max(1, made[-len(weight) + 1] // weight[1])
    positions = prod(x) // weight[0]
    return float(groups * blocks(positions) * blocks(prod(weight[1:])) * blocks(weight[0] // groups))


def contraction(step: Step, given: Sequence[Shape], made: Shape, dtype: str) -> Product | None:
    """Every element of the result sums over the letters that are not in it; without such letters it is no product of matrices."""
    equation = str(step.args[0]).replace(" ", "")
    sources, _, result = equation.partition("->")
    summed: dict[str, int] = {}
    for labels, shape in zip(sources.split(","), given):
        named = labels.replace("...", "")
        for label, extent in zip(reversed(named), reversed(shape)):
            if label not in result:
                summed[label] = extent
    terms = prod(summed.values())
    return Product(float(prod(made) * terms), dtype) if summed else None
