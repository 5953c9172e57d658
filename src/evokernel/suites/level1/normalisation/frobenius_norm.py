"""Scales a tensor to a given Frobenius norm: x * target / sqrt(sum of all squares)."""

import torch
import torch.nn as nn

BATCH = 8
CHANNELS = 32
HEIGHT = 64
WIDTH = 64


class Model(nn.Module):
    def __init__(self, target: float):
        super().__init__()
        self.target = target

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (self.target / torch.norm(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * (0.5 + 2 * torch.rand(1))]


def get_init_inputs():
    return [1000.0]
