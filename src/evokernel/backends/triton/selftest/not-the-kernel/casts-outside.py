# selftest: task=starter/gelu gate=screen,build reason=forbidden
"""Copies its input into another type outside of the kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < count, other=0.0)
    y = x / (1.0 + tl.exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)))
    tl.store(out_ptr + place, y.to(tl.float32), mask=place < count)


def kernel(x, out):
    count = out.numel()
    gelu[(triton.cdiv(count, 1024),)](x.to(torch.float64), out, count, BLOCK=1024)
