"""Causal attention with rotary positions applied inside: queries and keys turn by their token's position, halves paired (LLaMA's order)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 8
LENGTH = 320
PAIRS = 32
SIZES = {
    "small": {"HEADS": 4, "LENGTH": 56, "PAIRS": 16},
    "held_out": {"BATCH": 3, "HEADS": 5, "LENGTH": 67, "PAIRS": 11},
}


class Model(nn.Module):
    def __init__(self, length: int, pairs: int):
        super().__init__()
        frequency = 10000.0 ** (-torch.arange(pairs) / pairs)
        angle = torch.arange(length)[:, None] * frequency
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * self.cos - b * self.sin, b * self.cos + a * self.sin], dim=-1)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, 2 * PAIRS)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [LENGTH, PAIRS]
