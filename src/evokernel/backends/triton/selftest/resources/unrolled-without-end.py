# selftest: task=starter/softmax gate=screen,build reason=timeout,compile_error,build_timeout,memory,crash timeout=8
"""A loop of a hundred million steps that is unrolled while it is compiled."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    for step in tl.static_range(100_000_000):
        x += 0.0 * step
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e), mask=inside)


def kernel(x, out):
    rows, columns = x.shape
    softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
