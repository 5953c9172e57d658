# selftest: task=starter/softmax gate=screen,build reason=exit,forbidden,trace_error,symbol
"""Ends its process before there is a launch function."""

import triton
import triton.language as tl


raise SystemExit(0)


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e), mask=inside)


def kernel(x, out):
    rows, columns = x.shape
    softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
