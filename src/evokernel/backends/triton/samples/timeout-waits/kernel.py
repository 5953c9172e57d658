"""A loop that waits for a flag that no program sets."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, flag_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    while tl.load(flag_ptr, volatile=True) == 0:
        pass
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=column < columns)


def kernel(x, out):
    rows, columns = x.shape
    flag = torch.zeros(1, dtype=torch.int32, device=x.device)
    softmax[(rows,)](x, flag, out, columns, BLOCK=triton.next_power_of_2(columns))
