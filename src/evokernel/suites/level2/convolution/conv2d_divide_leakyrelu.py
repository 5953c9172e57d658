"""Convolution 3 x 3, divided by a constant, leaky ReLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 6
IN_CHANNELS = 16
OUT_CHANNELS = 64
HEIGHT = 40
WIDTH = 56
KERNEL_SIZE = 3


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, divisor: float, slope: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.divisor, self.slope = divisor, slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(self.conv(x) / self.divisor, self.slope)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 3]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 2.0, 0.01]
