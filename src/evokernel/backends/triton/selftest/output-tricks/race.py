# selftest: task=starter/softmax gate=check reason=mismatch,nondeterministic
"""Two programs write every row, and only one of them is right."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = (tl.program_id(0) // 2).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    e = tl.exp((x - tl.max(x)) * (1.0 + 0.5 * (tl.program_id(0) % 2)))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e), mask=inside)


def kernel(x, out):
    rows, columns = x.shape
    softmax[(2 * rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
