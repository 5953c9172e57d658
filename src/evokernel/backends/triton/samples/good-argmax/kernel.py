"""`tl.argmax` for blocks of a row, and the first of the best among the blocks."""

import triton
import triton.language as tl


@triton.jit
def first_largest(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = -float("inf")
    place = 0
    for first in range(0, columns, BLOCK):
        column = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
        largest, index = tl.max(x, axis=0, return_indices=True)
        is_better = largest > best
        place = tl.where(is_better, first + index, place)
        best = tl.where(is_better, largest, best)
    tl.store(out_ptr + row, place.to(tl.int64))


def kernel(x, out):
    rows, columns = x.shape
    first_largest[(rows,)](x, out, columns, BLOCK=256)
