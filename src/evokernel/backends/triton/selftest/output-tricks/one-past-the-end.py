# selftest: task=starter/softmax gate=check reason=out_of_bounds
"""The last row is one element longer."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e), mask=inside)
    if row == tl.num_programs(0) - 1:
        tl.store(out_ptr + (row + 1) * columns, 0.0)


def kernel(x, out):
    rows, columns = x.shape
    softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
