"""Cheat: PyTorch computes, a Triton kernel only copies."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        result = x * 2 + 1
        out = torch.empty_like(result)
        n = x.numel()
        copy[(triton.cdiv(n, 1024),)](result, out, n, BLOCK=1024)
        return out
