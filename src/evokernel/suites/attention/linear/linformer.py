"""Linformer: keys and values are projected along the length to few rows before softmax attention."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 4
LENGTH = 512
ROWS = 64
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, length: int, rows: int):
        super().__init__()
        self.key_rows = nn.Parameter(torch.randn(rows, length) / length**0.5)
        self.value_rows = nn.Parameter(torch.randn(rows, length) / length**0.5)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        k, v = torch.matmul(self.key_rows, k), torch.matmul(self.value_rows, v)
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        return torch.matmul(torch.softmax(scores, dim=-1), v)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [LENGTH, ROWS]
