# selftest: task=starter/softmax
"""The columns in steps, twice over: the first pass keeps a running maximum and sum, the second divides."""

import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * columns
    out_ptr += row * columns
    high = tl.full((BLOCK,), -1e38, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + column, mask=column < columns, other=-float("inf"))
        higher = tl.maximum(high, x)
        total = total * tl.exp(high - higher) + tl.exp(x - higher)
        high = higher
    top = tl.max(high)
    scale = 1.0 / tl.sum(total * tl.exp(high - top))
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + column, mask=column < columns, other=0.0)
        tl.store(out_ptr + column, tl.exp(x - top) * scale, mask=column < columns)


def kernel(x, out):
    rows, columns = x.shape
    softmax[(rows,)](x, out, columns, BLOCK=128)
