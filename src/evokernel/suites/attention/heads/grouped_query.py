"""Grouped-query causal self-attention: several neighbouring query heads share one head of keys and values."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 256
KEY_HEADS = 2
GROUP = 4
HEAD_DIM = 48


class Model(nn.Module):
    def __init__(self, key_heads: int, group: int, head_dim: int):
        super().__init__()
        self.group, self.head_dim = group, head_dim
        width = key_heads * group * head_dim
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(width, key_heads * head_dim, bias=False)
        self.to_v = nn.Linear(width, key_heads * head_dim, bias=False)
        self.to_out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for proj in (self.to_q, self.to_k, self.to_v))
        k = k.repeat_interleave(self.group, dim=1)
        v = v.repeat_interleave(self.group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.to_out(out.transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, KEY_HEADS * GROUP * HEAD_DIM) * 3]


def get_init_inputs():
    return [KEY_HEADS, GROUP, HEAD_DIM]
