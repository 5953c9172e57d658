"""Transposed 3D convolution to twice the size, leaky ReLU, channels times learned factors, leaky ReLU again, max pooling."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 32
DEPTH = 6
HEIGHT = 12
WIDTH = 16
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
POOL_SIZE = 2
SIZES = {
    "small": {"BATCH": 1, "IN_CHANNELS": 8, "OUT_CHANNELS": 16, "DEPTH": 4, "HEIGHT": 6, "WIDTH": 8},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 7, "OUT_CHANNELS": 13, "DEPTH": 5, "HEIGHT": 9, "WIDTH": 6},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, slope: float, pool_size: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding, output_padding=stride - 1)
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.slope = slope
        self.pool = nn.MaxPool3d(pool_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.leaky_relu(self.conv(x), self.slope) * self.factor
        return self.pool(F.leaky_relu(y, self.slope))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 3]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING, 0.2, POOL_SIZE]
