# selftest: task=starter/softmax
"""Tuned over warps, with a grid that is a function and a heuristic below."""

import triton
import triton.language as tl


CONFIGS = [triton.Config({}, num_warps=warps) for warps in (2, 4, 8)]


@triton.autotune(configs=CONFIGS, key=["columns"])
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["columns"])})
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
    softmax[lambda meta: (rows,)](x, out, columns)
