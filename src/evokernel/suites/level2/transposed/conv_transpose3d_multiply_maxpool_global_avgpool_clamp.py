"""Transposed 3D convolution with stride 2, times a constant, max pooling, mean over all positions, clamp to [0, 1]."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
IN_CHANNELS = 3
OUT_CHANNELS = 16
DEPTH = 8
HEIGHT = 20
WIDTH = 20
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
POOL_SIZE = 2
SIZES = {
    "small": {"BATCH": 2, "OUT_CHANNELS": 8, "DEPTH": 5, "HEIGHT": 8, "WIDTH": 10},
    "held_out": {"BATCH": 5, "IN_CHANNELS": 7, "OUT_CHANNELS": 13, "DEPTH": 7, "HEIGHT": 6, "WIDTH": 11},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, factor: float, pool_size: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        nn.init.normal_(self.conv.bias)
        self.factor = factor
        self.pool = nn.MaxPool3d(pool_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.conv(x) * self.factor)
        return F.adaptive_avg_pool3d(y, 1).clamp(0.0, 1.0)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2 + torch.randn(BATCH, IN_CHANNELS, 1, 1, 1) * 4]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING, 0.5, POOL_SIZE]
