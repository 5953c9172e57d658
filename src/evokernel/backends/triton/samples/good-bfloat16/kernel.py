"""bfloat16 in memory, float32 in between."""

import triton
import triton.language as tl


@triton.jit
def normalize(x_ptr, weight_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + column, mask=inside).to(tl.float32)
    tl.store(out_ptr + row * columns + column, (x * scale * weight).to(tl.bfloat16), mask=inside)


def kernel(x, weight, *rest):
    out = rest[-1]
    rows, columns = x.shape
    normalize[(rows,)](x, weight, out, columns, 1e-6, BLOCK=triton.next_power_of_2(columns))
