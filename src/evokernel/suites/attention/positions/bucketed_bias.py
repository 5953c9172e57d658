"""Attention with T5's relative bias: distances fall into buckets, narrow near by and wide far off, each with a learned bias per head."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 8
LENGTH = 256
HEAD_DIM = 64
BUCKETS = 16
FURTHEST = 128


class Model(nn.Module):
    def __init__(self, heads: int, length: int, buckets: int, furthest: int):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(2 * buckets, heads) * 1.5)
        offset = torch.arange(1 - length, length)
        near = buckets // 2
        steps = torch.log(offset.abs().clamp(min=1).double() / near) / torch.log(torch.tensor(furthest / near).double())
        far = (near + (steps * (buckets - near)).long()).clamp(max=buckets - 1)
        bucket = torch.where(offset.abs() < near, offset.abs(), far)
        self.register_buffer("bucket", bucket + (offset > 0) * buckets)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        position = torch.arange(q.shape[2])
        offset = position[None, :] - position[:, None]
        bias = self.bias[self.bucket[offset + q.shape[2] - 1]].permute(2, 0, 1)
        return torch.softmax(q @ k.transpose(-2, -1) + bias, dim=-1) @ v


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 0.25, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [HEADS, LENGTH, BUCKETS, FURTHEST]
