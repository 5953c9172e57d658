"""Attention over an image's patches with a learned bias per head for every distance in rows and in columns (LeViT)."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 8
ROWS = 14
COLUMNS = 16
KEY_DIM = 32
VALUE_DIM = 64
SIZES = {
    "small": {"HEADS": 4, "ROWS": 7, "COLUMNS": 9, "KEY_DIM": 16, "VALUE_DIM": 32},
    "held_out": {"BATCH": 3, "HEADS": 5, "ROWS": 11, "COLUMNS": 7, "KEY_DIM": 13, "VALUE_DIM": 19},
}


class Model(nn.Module):
    def __init__(self, heads: int, rows: int, columns: int):
        super().__init__()
        self.columns = columns
        self.bias = nn.Parameter(torch.randn(heads, rows, columns) * 1.5)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        patch = torch.arange(q.shape[2])
        row, column = patch // self.columns, patch % self.columns
        bias = self.bias[:, (row[:, None] - row).abs(), (column[:, None] - column).abs()]
        return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + bias, dim=-1) @ v


def get_inputs():
    q = torch.randn(BATCH, HEADS, ROWS * COLUMNS, KEY_DIM) * 1.5
    k = torch.randn(BATCH, HEADS, ROWS * COLUMNS, KEY_DIM)
    return [q, k, torch.randn(BATCH, HEADS, ROWS * COLUMNS, VALUE_DIM)]


def get_init_inputs():
    return [HEADS, ROWS, COLUMNS]
