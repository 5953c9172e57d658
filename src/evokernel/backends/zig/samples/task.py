"""Rows scaled and shifted by learned vectors, then passed through a smooth gate: what every sample here is a kernel for."""

import torch
from torch import nn

ROWS = 384
COLUMNS = 512


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
