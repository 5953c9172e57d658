"""Counts the multiply-adds of an operator on the cube units, which work in blocks of 16."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from evokernel.reference.program import Step

BLOCK_SIDE = 16
"""Side of the blocks that the cube multiplies."""
Shape = tuple[int, ...]
FIRST_FACTOR = {"matmul": 0, "mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "addbmm": 1}
"""Matrix product operators, with the index of their first factor among the inputs."""
RECURRENT_OPS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class CubeWork(NamedTuple):
    """The work of an operator on the cube units."""

    macs: float = 0.0
    dtype: str = "float32"
    scores: int = 0
    """Elements of the softmax inside attention."""


def cube_work(step: Step, op: str, input_shapes: Sequence[Shape], output_shapes: Sequence[Shape], dtype: str) -> CubeWork | None:
    """The cube work of an operator; None if it is neither a matrix product nor a convolution."""
    if op in FIRST_FACTOR:
        first_factor, second_factor = input_shapes[FIRST_FACTOR[op]], input_shapes[min(FIRST_FACTOR[op] + 1, len(input_shapes) - 1)]
        return CubeWork(matmul_macs(first_factor, second_factor, output_shapes[0]), dtype)
    if op == "linear":
        rows, depth = prod(input_shapes[0][:-1]), input_shapes[1][-1]
        return CubeWork(float(round_up_to_block(rows) * round_up_to_block(prod(input_shapes[1][:-1])) * round_up_to_block(depth)), dtype)
    if op.startswith("conv_transpose"):
        return CubeWork(transposed_convolution_macs(input_shapes[0], input_shapes[1], output_shapes[0]), dtype)
    if op.startswith("conv") and op[4:5].isdigit():
        return CubeWork(convolution_macs(input_shapes[0], input_shapes[1], output_shapes[0]), dtype)
    if op == "einsum":
        return einsum_work(step, input_shapes, output_shapes[0], dtype)
    if op in RECURRENT_OPS:
        steps = prod(input_shapes[0][:-1])
        return CubeWork(float(steps * sum(round_up_to_block(prod(shape)) for shape in input_shapes[1:] if len(shape) == 2)), dtype)
    if op == "scaled_dot_product_attention":
        query, key, values = input_shapes[:3]
        scores = prod(query[:-1]) * key[-2]
        return CubeWork(float(scores * (query[-1] + values[-1])), dtype, scores)
    return None


def round_up_to_block(extent: int) -> int:
    """Round an extent up to complete blocks."""
    return -(-extent // BLOCK_SIDE) * BLOCK_SIDE


def matmul_macs(left: Shape, right: Shape, output: Shape) -> float:
    """Multiply-adds of a matrix product. A vector is a matrix with one row or column; a shared right factor is one product."""
    depth = left[-1]
    rows = left[-2] if len(left) > 1 else 1
    wide = right[-1] if len(right) > 1 else 1
    batch = max(1, prod(output)) // max(1, rows * wide)
    if len(right) <= 2:
        rows, batch = rows * batch, 1
    return float(batch * round_up_to_block(rows) * round_up_to_block(wide) * round_up_to_block(depth))


def convolution_macs(x: Shape, weight: Shape, output: Shape) -> float:
    """Multiply-adds of a convolution: per group one product of positions x channels x window."""
    groups = max(1, x[-len(weight) + 1] // weight[1])
    positions = prod(output) // weight[0]
    return float(groups * round_up_to_block(positions) * round_up_to_block(weight[0] // groups) * round_up_to_block(prod(weight[1:])))


def transposed_convolution_macs(x: Shape, weight: Shape, output: Shape) -> float:
    """Multiply-adds of a transposed convolution, over the positions of the input."""
    groups = max(1, output[-len(weight) + 1] // weight[1])
    positions = prod(x) // weight[0]
    return float(groups * round_up_to_block(positions) * round_up_to_block(prod(weight[1:])) * round_up_to_block(weight[0] // groups))


def einsum_work(step: Step, input_shapes: Sequence[Shape], output: Shape, dtype: str) -> CubeWork | None:
    """The cube work of an einsum, which sums over the letters that are not in its result; None without such letters."""
    equation = str(step.args[0]).replace(" ", "")
    sources, _, result = equation.partition("->")
    summed_extents: dict[str, int] = {}
    for labels, shape in zip(sources.split(","), input_shapes):
        letters = labels.replace("...", "")
        for label, extent in zip(reversed(letters), reversed(shape)):
            if label not in result:
                summed_extents[label] = extent
    terms = prod(summed_extents.values())
    return CubeWork(float(prod(output) * terms), dtype) if summed_extents else None
