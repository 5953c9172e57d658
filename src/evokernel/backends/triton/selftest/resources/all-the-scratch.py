# selftest: task=starter/softmax gate=screen,build,check reason=memory,trace_error
"""Asks for more scratch than any device has."""

import torch
import triton
import triton.language as tl


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
    aside = torch.empty((1 << 50,), dtype=torch.uint8, device=x.device)
    softmax[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    softmax[(1,)](x, aside, columns, BLOCK=triton.next_power_of_2(columns))
