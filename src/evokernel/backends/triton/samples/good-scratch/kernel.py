"""Two passes: the first leaves scaled rows in scratch, the second shifts and gates them."""

import torch
import triton
import triton.language as tl


BLOCK = 1024


@triton.jit
def scaled(x_ptr, scale_ptr, scratch_ptr, columns, count, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(x_ptr + place, mask=inside)
    tl.store(scratch_ptr + place, x * tl.load(scale_ptr + place % columns, mask=inside), mask=inside)


@triton.jit
def gated(scratch_ptr, shift_ptr, out_ptr, columns, count, slope, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    y = tl.load(scratch_ptr + place, mask=inside) + tl.load(shift_ptr + place % columns, mask=inside)
    tl.store(out_ptr + place, tl.where(y > 0, y, slope * y), mask=inside)


def kernel(x, scale, shift, columns, slope, out):
    count, width = x.numel(), x.shape[1]
    scratch = torch.empty_like(x)
    grid = (triton.cdiv(count, BLOCK),)
    scaled[grid](x, scale, scratch, width, count, BLOCK=BLOCK)
    gated[grid](scratch, shift, out, width, count, slope, BLOCK=BLOCK)
