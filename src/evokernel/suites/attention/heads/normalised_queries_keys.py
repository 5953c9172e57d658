"""Multi-head self-attention with normalised queries and keys (QK-norm): each head's vectors have root mean square one, times a weight."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 192
HEADS = 6
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, heads: int, head_dim: int, eps: float):
        super().__init__()
        self.heads, self.eps = heads, eps
        self.to_qkv = nn.Linear(heads * head_dim, 3 * heads * head_dim, bias=False)
        self.q_weight = nn.Parameter(torch.empty(head_dim).uniform_(0.5, 2.5))
        self.k_weight = nn.Parameter(torch.empty(head_dim).uniform_(0.5, 2.5))
        self.to_out = nn.Linear(heads * head_dim, heads * head_dim, bias=False)

    def rms(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = self.rms(q) * self.q_weight, self.rms(k) * self.k_weight
        out = F.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM) * 3]


def get_init_inputs():
    return [HEADS, HEAD_DIM, 1e-6]
