# selftest: task=starter/softmax gate=screen,build,check,time reason=timeout,launch timeout=6
"""More programs than a grid has, of which few have something to do."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    if row % 4194304 != 0:
        return
    row = row // 4194304
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e), mask=inside)


def kernel(x, out):
    rows, columns = x.shape
    softmax[(rows * 4194304,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
