"""Product over the middle axis."""

import torch
import torch.nn as nn

BATCH = 48
FACTORS = 64
COLS = 384


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.prod(x, dim=1)


def get_inputs():
    sign = torch.randint(0, 2, (BATCH, FACTORS, COLS)) * 2 - 1
    return [sign * torch.exp(torch.randn(BATCH, FACTORS, COLS) * 0.1)]


def get_init_inputs():
    return []
