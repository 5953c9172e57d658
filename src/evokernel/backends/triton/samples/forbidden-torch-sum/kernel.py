"""PyTorch computes the sums; only the division is a kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def divide(x_ptr, total_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    e = tl.exp(tl.load(x_ptr + row * columns + column, mask=inside))
    tl.store(out_ptr + row * columns + column, e / tl.load(total_ptr + row), mask=inside)


def kernel(x, out):
    rows, columns = x.shape
    divide[(rows,)](x, torch.exp(x).sum(dim=1), out, columns, BLOCK=triton.next_power_of_2(columns))
