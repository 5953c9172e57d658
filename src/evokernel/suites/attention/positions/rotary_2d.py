"""Attention over an image's patches with rotary positions in two dimensions: half of each head turns by row, the other half by column."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 6
ROWS = 18
COLUMNS = 20
PAIRS = 16
SIZES = {
    "small": {"HEADS": 4, "ROWS": 8, "COLUMNS": 6, "PAIRS": 8},
    "held_out": {"BATCH": 3, "HEADS": 5, "ROWS": 7, "COLUMNS": 11, "PAIRS": 5},
}


class Model(nn.Module):
    def __init__(self, rows: int, columns: int, pairs: int):
        super().__init__()
        frequency = 100.0 ** (-torch.arange(pairs) / pairs)
        row = torch.arange(rows).repeat_interleave(columns)
        column = torch.arange(columns).repeat(rows)
        angle = torch.cat([row[:, None] * frequency, column[:, None] * frequency], dim=-1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * self.cos - b * self.sin, b * self.cos + a * self.sin], dim=-1).flatten(-2)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(self.turned(q), self.turned(k), v)


def get_inputs():
    shape = (BATCH, HEADS, ROWS * COLUMNS, 4 * PAIRS)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [ROWS, COLUMNS, PAIRS]
