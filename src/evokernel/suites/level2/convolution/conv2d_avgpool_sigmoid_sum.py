"""Convolution 3 x 3, average pooling, sigmoid, then one sum per image over channels and positions."""

import torch
import torch.nn as nn

BATCH = 16
IN_CHANNELS = 8
OUT_CHANNELS = 32
HEIGHT = 64
WIDTH = 64
KERNEL_SIZE = 3
POOL_SIZE = 4


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, pool_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        nn.init.normal_(self.conv.bias, std=3.0)
        self.pool = nn.AvgPool2d(pool_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.pool(self.conv(x))).sum(dim=(1, 2, 3))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 3 + torch.randn(BATCH, IN_CHANNELS, 1, 1) * 4]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, POOL_SIZE]
