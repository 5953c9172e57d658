"""More programs along y than a grid has."""

import triton
import triton.language as tl


@triton.jit
def gate(x_ptr, scale_ptr, shift_ptr, out_ptr, columns, count, slope, BLOCK: tl.constexpr):
    place = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    column = place % columns
    x = tl.load(x_ptr + place, mask=inside)
    y = x * tl.load(scale_ptr + column, mask=inside) + tl.load(shift_ptr + column, mask=inside)
    tl.store(out_ptr + place, tl.where(y > 0, y, slope * y), mask=inside)


def kernel(x, scale, shift, columns, slope, out):
    count = out.numel()
    grid = (1, max(triton.cdiv(count, 16), 70_000))
    gate[grid](x, scale, shift, out, x.shape[1], count, slope, BLOCK=16)
