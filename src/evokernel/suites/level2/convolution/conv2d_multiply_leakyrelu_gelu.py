"""Convolution 3 x 3, every channel times a learned factor, leaky ReLU, GELU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
IN_CHANNELS = 64
OUT_CHANNELS = 64
HEIGHT = 48
WIDTH = 40
KERNEL_SIZE = 3


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, slope: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.leaky_relu(self.conv(x) * self.factor, self.slope))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 3]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 0.01]
