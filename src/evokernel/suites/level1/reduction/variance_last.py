"""Unbiased variance over the last axis, in float64."""

import torch
import torch.nn as nn

ROWS = 1024
COLS = 1000


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.var(x, dim=1)


def get_inputs():
    scale = 0.5 + 2 * torch.rand(ROWS, 1, dtype=torch.float64)
    return [torch.randn(ROWS, COLS, dtype=torch.float64) * scale + 2]


def get_init_inputs():
    return []
