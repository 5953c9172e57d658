"""Multi-query causal self-attention: every head has its own queries, all share one set of keys and values."""

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 256
HEADS = 6
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, heads: int, head_dim: int):
        super().__init__()
        width = heads * head_dim
        self.heads = heads
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(width, head_dim, bias=False)
        self.to_v = nn.Linear(width, head_dim, bias=False)
        self.to_out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.to_q(x).unflatten(-1, (self.heads, -1))
        k, v = self.to_k(x), self.to_v(x)
        scores = torch.einsum("bihd,bjd->bhij", q, k) / k.shape[-1] ** 0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
        return self.to_out(torch.einsum("bhij,bjd->bihd", weights, v).flatten(2))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM) * 3]


def get_init_inputs():
    return [HEADS, HEAD_DIM]
