"""GELU activation, tanh form."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 512
COLS = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x, approximate="tanh")


def get_inputs():
    return [torch.randn(ROWS, COLS) * 2]


def get_init_inputs():
    return []
