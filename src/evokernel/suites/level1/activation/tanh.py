"""Hyperbolic tangent."""

import torch
import torch.nn as nn

BATCH = 24
LENGTH = 64
DIM = 512


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, DIM) * 2]


def get_init_inputs():
    return []
