"""Convolution 3 x 3, batch normalisation by running statistics, scaled by a constant."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 8
OUT_CHANNELS = 64
HEIGHT = 48
WIDTH = 40
KERNEL_SIZE = 3


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, scale: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.norm = nn.BatchNorm2d(out_channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)) * self.scale


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 2.0]
