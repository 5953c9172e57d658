"""Elementwise: relu(2 x + 1) x."""

import torch
import torch.nn as nn

N = 1572864
SIZES = {"small": {"N": 24576}, "held_out": {"N": 50184}}


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * 2 + 1) * x


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
