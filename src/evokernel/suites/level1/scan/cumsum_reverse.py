"""Running sum from the end of each row: out[i] = x[i] + x[i + 1] + ... to the last."""

import torch
import torch.nn as nn

ROWS = 384
COLS = 2048


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flip(torch.cumsum(torch.flip(x, dims=(1,)), dim=1), dims=(1,))


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
