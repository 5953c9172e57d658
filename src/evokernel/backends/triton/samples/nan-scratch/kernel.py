"""Adds to scratch that nobody set."""

import torch
import triton
import triton.language as tl


@triton.jit
def gate(x_ptr, scale_ptr, shift_ptr, scratch_ptr, out_ptr, columns, slope, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    place = row * columns + column
    y = tl.load(x_ptr + place, mask=inside) * tl.load(scale_ptr + column, mask=inside) + tl.load(shift_ptr + column, mask=inside)
    y += tl.abs(tl.load(scratch_ptr + place, mask=inside))
    tl.store(out_ptr + place, tl.where(y > 0, y, slope * y), mask=inside)


def kernel(x, scale, shift, columns, slope, out):
    rows, width = x.shape
    gate[(rows,)](x, scale, shift, torch.empty_like(x), out, width, slope, BLOCK=triton.next_power_of_2(width))
