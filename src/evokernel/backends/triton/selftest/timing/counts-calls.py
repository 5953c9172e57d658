# selftest: task=starter/softmax gate=screen,build,check reason=forbidden,trace_error,mismatch,nan,unwritten
"""A counter that lives as long as the module; after some calls nothing is computed."""

import torch
import triton
import triton.language as tl


CALLS = torch.zeros((1,), dtype=torch.int32, device="cuda")


@triton.jit
def softmax(x_ptr, calls_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=-float("inf"))
    e = tl.exp(x - tl.max(x))
    calls = tl.atomic_add(calls_ptr, 1)
    tl.store(out_ptr + row * columns + column, e / tl.sum(e), mask=inside & (calls >= 0) & (calls < 40 * tl.num_programs(0)))


def kernel(x, out):
    rows, columns = x.shape
    softmax[(rows,)](x, CALLS, out, columns, BLOCK=triton.next_power_of_2(columns))
