"""Softsign: x / (1 + |x|)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 1152
COLS = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softsign(x)


def get_inputs():
    return [torch.randn(ROWS, COLS) * 3]


def get_init_inputs():
    return []
