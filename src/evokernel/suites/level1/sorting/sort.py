"""Rows sorted in ascending order, with the column every element came from; equal elements stay in order."""

import torch
import torch.nn as nn

ROWS = 256
COLS = 1000


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, index = torch.sort(x, dim=1, stable=True)
        return values, index


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
