"""Adds source elements to x at the columns given, several to one where they meet: out[i, index[i, j]] += source[i, j]."""

import torch
import torch.nn as nn

ROWS = 512
COLS = 256
LENGTH = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return torch.scatter_add(x, 1, index, source)


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randint(0, COLS, (ROWS, LENGTH)), torch.randn(ROWS, LENGTH)]


def get_init_inputs():
    return []
