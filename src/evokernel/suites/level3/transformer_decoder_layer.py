"""Transformer decoder layer, norm first: causal self-attention, attention over a memory, then a GELU feed-forward layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 96
MEMORY = 128
HEADS = 4
HEAD_DIM = 32
HIDDEN = 512
FAMILY = "fuse"
SIZES = {
    "small": {"LENGTH": 24, "MEMORY": 32, "HEADS": 2, "HEAD_DIM": 16, "HIDDEN": 128},
    "held_out": {"BATCH": 3, "LENGTH": 23, "MEMORY": 31, "HEADS": 3, "HEAD_DIM": 11, "HIDDEN": 97},
}


def layer_norm(width: int) -> nn.LayerNorm:
    norm = nn.LayerNorm(width)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    return norm


class Attention(nn.Module):
    def __init__(self, heads: int, head_dim: int):
        super().__init__()
        self.heads = heads
        width = heads * head_dim
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.project = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, causal: bool) -> torch.Tensor:
        parts = ((self.query, x), (self.key, memory), (self.value, memory))
        q, k, v = (linear(given).unflatten(-1, (self.heads, -1)).transpose(1, 2) for linear, given in parts)
        return self.project(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, heads: int, head_dim: int, hidden: int):
        super().__init__()
        width = heads * head_dim
        self.norm1, self.norm2, self.norm3 = (layer_norm(width) for _ in range(3))
        self.self_attention = Attention(heads, head_dim)
        self.cross_attention = Attention(heads, head_dim)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        inner = self.norm1(x)
        x = x + self.self_attention(inner, inner, True)
        x = x + self.cross_attention(self.norm2(x), memory, False)
        return x + self.mlp(self.norm3(x))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM) * 2, torch.randn(BATCH, MEMORY, HEADS * HEAD_DIM) * 4]


def get_init_inputs():
    return [HEADS, HEAD_DIM, HIDDEN]
