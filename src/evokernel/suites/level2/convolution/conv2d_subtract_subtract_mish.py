"""Convolution 3 x 3, two constants subtracted one after the other, mish."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
IN_CHANNELS = 8
OUT_CHANNELS = 64
HEIGHT = 64
WIDTH = 48
KERNEL_SIZE = 3


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, first: float, second: float):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.first, self.second = first, second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mish(self.conv(x) - self.first - self.second)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 3]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 0.5, 0.2]
