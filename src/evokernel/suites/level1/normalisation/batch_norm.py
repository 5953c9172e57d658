"""Batch normalisation of two-dimensional maps with stored statistics, weight and bias."""

import torch
import torch.nn as nn

BATCH = 6
CHANNELS = 64
HEIGHT = 64
WIDTH = 48


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * 2 + 0.5]


def get_init_inputs():
    return [CHANNELS]
