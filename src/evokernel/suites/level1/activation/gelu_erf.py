"""Gaussian error linear unit, exact: x * (1 + erf(x / sqrt(2))) / 2."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 512
COLS = 2048


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x)


def get_inputs():
    return [torch.randn(ROWS, COLS) * 2]


def get_init_inputs():
    return []
