"""Transposed convolution in three dimensions, a learned factor, average pooling, bias per channel, another learned factor."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 3
OUT_CHANNELS = 16
DEPTH = 10
HEIGHT = 20
WIDTH = 20
KERNEL_SIZE = 3
POOL = 2
STRIDE = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 3, "OUT_CHANNELS": 6, "DEPTH": 4, "HEIGHT": 6, "WIDTH": 8},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 3, "HEIGHT": 5, "WIDTH": 7},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, pool: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=1)
        self.before = nn.Parameter(0.5 + torch.rand(1))
        self.pool = nn.AvgPool3d(pool)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.after = nn.Parameter(0.5 + torch.rand(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.conv(x) * self.before)
        return (y + self.bias) * self.after


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 4]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, POOL]
