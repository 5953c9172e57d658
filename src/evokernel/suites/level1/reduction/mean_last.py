"""Mean over the last axis."""

import torch
import torch.nn as nn

BATCH = 32
ROWS = 96
COLS = 512


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(x, dim=2)


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLS) + torch.randn(BATCH, ROWS, 1)]


def get_init_inputs():
    return []
