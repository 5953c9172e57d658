"""A matrix times one number, given as a tensor of one element."""

import torch
import torch.nn as nn

ROWS = 1280
COLS = 1024


class Model(nn.Module):
    def forward(self, a: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return a * scale


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(1) * 3]


def get_init_inputs():
    return []
