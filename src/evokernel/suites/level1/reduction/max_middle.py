"""Largest element over the middle axis."""

import torch
import torch.nn as nn

BATCH = 16
ROWS = 320
COLS = 256


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.max(x, dim=1).values


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLS) * 2]


def get_init_inputs():
    return []
