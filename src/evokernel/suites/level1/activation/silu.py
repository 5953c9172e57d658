"""Swish in bfloat16: x * sigmoid(x)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 640
COLS = 1408


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(x)


def get_inputs():
    return [torch.randn(ROWS, COLS, dtype=torch.bfloat16) * 3]


def get_init_inputs():
    return []
