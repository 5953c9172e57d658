"""Programs add their part of a row to a zeroed output, and a ticket counts them."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_parts(x_ptr, sums_ptr, counts_ptr, out_ptr, columns, parts, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.atomic_add(sums_ptr + row, tl.sum(x, axis=0))
    ticket = tl.atomic_add(counts_ptr + row, 1)
    if ticket == parts - 1:
        tl.store(out_ptr + row, tl.load(sums_ptr + row))


def kernel(x, out):
    rows, columns = x.shape
    sums = torch.zeros(rows, dtype=torch.float32, device=x.device)
    counts = torch.zeros(rows, dtype=torch.int32, device=x.device)
    parts = triton.cdiv(columns, 1024)
    add_parts[(rows, parts)](x, sums, counts, out, columns, parts, BLOCK=1024)
