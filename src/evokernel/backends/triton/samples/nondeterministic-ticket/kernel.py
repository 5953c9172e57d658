"""What a program adds depends on when it came."""

import torch
import triton
import triton.language as tl


@triton.jit
def gate(x_ptr, scale_ptr, shift_ptr, counter_ptr, out_ptr, columns, count, slope, BLOCK: tl.constexpr):
    ticket = tl.atomic_add(counter_ptr, 1)
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    column = place % columns
    x = tl.load(x_ptr + place, mask=inside)
    y = x * tl.load(scale_ptr + column, mask=inside) + tl.load(shift_ptr + column, mask=inside)
    y = y * (1.0 + (ticket % 4) * 1.2e-7)
    tl.store(out_ptr + place, tl.where(y > 0, y, slope * y), mask=inside)


def kernel(x, scale, shift, columns, slope, out):
    count = out.numel()
    counter = torch.zeros(1, dtype=torch.int32, device=x.device)
    gate[(triton.cdiv(count, 64),)](x, scale, shift, counter, out, x.shape[1], count, slope, BLOCK=64)
