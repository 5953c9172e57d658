"""The largest 8 elements of every row, largest first, and their columns."""

import torch
import torch.nn as nn

ROWS = 512
COLS = 1024
K = 8


class Model(nn.Module):
    def __init__(self, k: int):
        super().__init__()
        self.k = k

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, index = torch.topk(x, self.k, dim=1)
        return values, index


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [K]
