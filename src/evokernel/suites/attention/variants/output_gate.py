"""Causal self-attention whose heads are multiplied by a sigmoid gate of the input before the output projection."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 256
HEADS = 4
HEAD_DIM = 64
WIDTH = HEADS * HEAD_DIM


class Model(nn.Module):
    def __init__(self, heads: int, width: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.gate = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(heads.transpose(1, 2).flatten(2) * torch.sigmoid(self.gate(x)))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH) * 2]


def get_init_inputs():
    return [HEADS, WIDTH]
