"""Product of a diagonal matrix, given as the vector of its diagonal, and a matrix."""

import torch
import torch.nn as nn

ROWS = 1280
COLS = 1536


class Model(nn.Module):
    def forward(self, diagonal: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return diagonal.unsqueeze(1) * b


def get_inputs():
    return [torch.randn(ROWS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
