"""Multi-head cross-attention: queries from one sequence, keys and values from another of other width; also the mean weights over heads."""

import torch
import torch.nn as nn

BATCH = 4
QUERIES = 64
KEYS = 196
HEADS = 4
HEAD_DIM = 64
CONTEXT_DIM = 384


class Model(nn.Module):
    def __init__(self, heads: int, head_dim: int, context_dim: int):
        super().__init__()
        width = heads * head_dim
        self.heads = heads
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(context_dim, width, bias=False)
        self.to_v = nn.Linear(context_dim, width)
        self.to_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = self.to_q(x).unflatten(-1, (self.heads, -1))
        k = self.to_k(context).unflatten(-1, (self.heads, -1))
        v = self.to_v(context).unflatten(-1, (self.heads, -1))
        weights = torch.softmax(torch.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5, dim=-1)
        out = torch.einsum("bhij,bjhd->bihd", weights, v)
        return self.to_out(out.flatten(2)), weights.mean(dim=1)


def get_inputs():
    return [torch.randn(BATCH, QUERIES, HEADS * HEAD_DIM) * 3, torch.randn(BATCH, KEYS, CONTEXT_DIM) * 3]


def get_init_inputs():
    return [HEADS, HEAD_DIM, CONTEXT_DIM]
