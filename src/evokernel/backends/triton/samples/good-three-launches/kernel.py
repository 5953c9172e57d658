"""The loss of every row into scratch, partial sums, and their sum: three launches."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_losses(logits_ptr, target_ptr, losses_ptr, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    x = tl.load(logits_ptr + row * classes + column, mask=column < classes, other=-float("inf"))
    largest = tl.max(x, axis=0)
    total = largest + tl.log(tl.sum(tl.exp(x - largest), axis=0))
    target = tl.load(target_ptr + row)
    tl.store(losses_ptr + row, total - tl.load(logits_ptr + row * classes + target))


@triton.jit
def add(values_ptr, out_ptr, count, scale, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(values_ptr + place, mask=place < count, other=0.0)) * scale)


def kernel(logits, target, out):
    rows, classes = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    parts = triton.cdiv(rows, 64)
    partial = torch.empty(parts, dtype=torch.float32, device=logits.device)
    row_losses[(rows,)](logits, target, losses, classes, BLOCK=triton.next_power_of_2(classes))
    add[(parts,)](losses, partial, rows, 1.0, BLOCK=64)
    add[(1,)](partial, out, parts, 1.0 / rows, BLOCK=triton.next_power_of_2(parts))
