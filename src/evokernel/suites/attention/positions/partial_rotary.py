"""Causal attention with rotary positions on a head's first part only: neighbours paired (GPT-J's order), the rest left as it is."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 8
LENGTH = 256
PAIRS = 12
PLAIN_DIM = 40
SIZES = {
    "small": {"HEADS": 4, "LENGTH": 64, "PAIRS": 6, "PLAIN_DIM": 16},
    "held_out": {"BATCH": 3, "HEADS": 5, "LENGTH": 61, "PAIRS": 7, "PLAIN_DIM": 13},
}


class Model(nn.Module):
    def __init__(self, pairs: int):
        super().__init__()
        self.pairs = pairs
        self.register_buffer("frequency", 10000.0 ** (-torch.arange(pairs) / pairs))

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        angle = torch.arange(x.shape[2])[:, None] * self.frequency
        turning, plain = x[..., : 2 * self.pairs], x[..., 2 * self.pairs :]
        a, b = turning[..., 0::2], turning[..., 1::2]
        pairs = torch.stack([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)
        return torch.cat([pairs.flatten(-2), plain], dim=-1)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, 2 * PAIRS + PLAIN_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [PAIRS]
