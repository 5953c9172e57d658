"""Running sum along the first axis."""

import torch
import torch.nn as nn

LENGTH = 2048
COLS = 384


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x, dim=0)


def get_inputs():
    return [torch.randn(LENGTH, COLS)]


def get_init_inputs():
    return []
