"""Multi-head self-attention: queries, keys and values projected from one sequence, heads joined and projected back; keys need no bias."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 192
HEADS = 6
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, heads: int, head_dim: int):
        super().__init__()
        width = heads * head_dim
        self.heads = heads
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(width, width, bias=False)
        self.to_v = nn.Linear(width, width)
        self.to_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (proj(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for proj in (self.to_q, self.to_k, self.to_v))
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM) * 3]


def get_init_inputs():
    return [HEADS, HEAD_DIM]
