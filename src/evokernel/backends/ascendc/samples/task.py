"""Scales and shifts rows by learned vectors, then applies a leaky gate; every sample in this folder is a kernel for this task."""

import torch
from torch import nn

ROWS = 192
COLUMNS = 512
SIZES = {"small": {"ROWS": 48, "COLUMNS": 128}, "held_out": {"ROWS": 29, "COLUMNS": 173}}


class Model(nn.Module):
    def __init__(self, columns: int, slope: float):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns))
        self.shift = nn.Parameter(torch.randn(columns))
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.scale + self.shift
        return torch.where(y > 0, y, self.slope * y)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS, 0.25]
