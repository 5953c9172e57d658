"""Sum over the middle axis."""

import torch
import torch.nn as nn

BATCH = 24
ROWS = 192
COLS = 320


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sum(x, dim=1)


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLS)]


def get_init_inputs():
    return []
