"""The mask is missing: the last block of a row reads the next row, and the last row's reads past the end of the input."""

import triton
import triton.language as tl


@triton.jit
def sum_rows(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = 0.0
    for first in range(0, columns, BLOCK):
        total += tl.sum(tl.load(x_ptr + row * columns + first + tl.arange(0, BLOCK)), axis=0)
    tl.store(out_ptr + row, total)


def kernel(x, out):
    rows, columns = x.shape
    sum_rows[(rows,)](x, out, columns, BLOCK=256)
