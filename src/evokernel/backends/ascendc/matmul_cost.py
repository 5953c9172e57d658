"""The matrix products of an operator, as the cube units compute them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from evokernel.reference.program import Step

Shape = tuple[int, ...]
FIRST_FACTOR = {"matmul": 0, "mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "addbmm": 1}
"""Matrix product operators, with the index of their first factor among the inputs."""
RECURRENT_OPS = ("lstm", "gru", "rnn_tanh", "rnn_relu")


class CubeWork(NamedTuple):
    """Equal products of an operator: `batch` of them at once, and all that `repeats` times in sequence."""

    batch: int
    rows: int
    columns: int
    depth: int
    dtype: str = "float32"
    repeats: int = 1
    is_right_turned: bool = False
    """Whether the depth is contiguous in the right factor, as in the weights of a linear layer."""
    has_rows: bool = True
    """Whether copies consist of the rows of matrices; the vendor's format of convolutions has none."""
    copied_share: float = 1.0
    """Bytes of the left factor in memory, divided by those of the matrix that is multiplied: the windows of a convolution overlap."""
    is_stored: bool = True
    """Whether the result goes to memory; the scores inside attention do not."""

    @property
    def macs(self) -> float:
        return float(self.repeats * self.batch * self.rows * self.columns * self.depth)


def list_products(step: Step, op: str, input_shapes: Sequence[Shape], output_shapes: Sequence[Shape], dtype: str) -> tuple[CubeWork, ...]:
    """The products of an operator, in sequence; none if it is neither a matrix product nor a convolution."""
    output = output_shapes[0]
    if op in FIRST_FACTOR:
        left, right = input_shapes[FIRST_FACTOR[op]], input_shapes[min(FIRST_FACTOR[op] + 1, len(input_shapes) - 1)]
        return (matmul_work(left, right, output, dtype),)
    if op == "linear":
        rows, columns, depth = prod(input_shapes[0][:-1]), prod(input_shapes[1][:-1]), input_shapes[1][-1]
        return (CubeWork(1, rows, columns, depth, dtype, is_right_turned=True),)
    if op.startswith("conv_transpose"):
        return (transposed_convolution_work(input_shapes[0], input_shapes[1], output, dtype),)
    if op.startswith("conv") and op[4:5].isdigit():
        return (convolution_work(input_shapes[0], input_shapes[1], output, dtype),)
    if op == "einsum":
        return einsum_work(step, input_shapes, output, dtype)
    if op in RECURRENT_OPS:
        return recurrent_work(input_shapes, dtype)
    if op == "scaled_dot_product_attention":
        query, key, values = input_shapes[:3]
        batch = prod(query[:-2])
        return (
            CubeWork(batch, query[-2], key[-2], query[-1], dtype, is_right_turned=True, is_stored=False),
            CubeWork(batch, query[-2], values[-1], key[-2], dtype),
        )
    return ()


def matmul_work(left: Shape, right: Shape, output: Shape, dtype: str) -> CubeWork:
    """A matrix product. A vector is a matrix with one row or column; a shared right factor is one product."""
    rows = left[-2] if len(left) > 1 else 1
    columns = right[-1] if len(right) > 1 else 1
    batch = max(1, prod(output)) // max(1, rows * columns)
    if len(right) <= 2:
        rows, batch = rows * batch, 1
    return CubeWork(max(1, batch), max(1, rows), columns, left[-1], dtype)


def convolution_work(x: Shape, weight: Shape, output: Shape, dtype: str) -> CubeWork:
    """A convolution: per group one product of positions x channels x window."""
    groups = max(1, x[-len(weight) + 1] // weight[1])
    positions, depth = prod(output) // weight[0], prod(weight[1:])
    share = min(1.0, prod(x) / max(1, groups * positions * depth))
    return CubeWork(groups, positions, weight[0] // groups, depth, dtype, has_rows=False, copied_share=share)


def transposed_convolution_work(x: Shape, weight: Shape, output: Shape, dtype: str) -> CubeWork:
    """A transposed convolution, over the positions of the input."""
    groups = max(1, output[-len(weight) + 1] // weight[1])
    return CubeWork(groups, prod(x) // weight[0], prod(weight[1:]), weight[0] // groups, dtype, has_rows=False)


def recurrent_work(input_shapes: Sequence[Shape], dtype: str) -> tuple[CubeWork, ...]:
    """One product per weight matrix and time step."""
    batch = next((shape[1] for shape in input_shapes[1:] if len(shape) == 3), 1)
    steps = max(1, prod(input_shapes[0][:-1]) // max(1, batch))
    weights = [shape for shape in input_shapes[1:] if len(shape) == 2]
    return tuple(CubeWork(1, batch, columns, depth, dtype, steps, is_right_turned=True) for columns, depth in weights)


def einsum_work(step: Step, input_shapes: Sequence[Shape], output: Shape, dtype: str) -> tuple[CubeWork, ...]:
    """The product of an einsum, which sums over the letters that are not in its result; none without such letters."""
    sources, _, result = str(step.args[0]).replace(" ", "").partition("->")
    extents: dict[str, int] = {}
    labels = [source.replace("...", "") for source in sources.split(",")]
    for letters, shape in zip(labels, input_shapes):
        extents |= dict(zip(reversed(letters), reversed(shape)))
    depth = prod(extent for letter, extent in extents.items() if letter not in result)
    if all(letter in result for letter in extents):
        return ()
    right = set(labels[-1])
    columns = prod(extents.get(letter, 1) for letter in result if letter in right and letter not in "".join(labels[:-1]))
    rows = prod(extents.get(letter, 1) for letter in result if letter not in right)
    return (CubeWork(max(1, prod(output) // max(1, rows * columns)), rows, columns, depth, dtype),)
