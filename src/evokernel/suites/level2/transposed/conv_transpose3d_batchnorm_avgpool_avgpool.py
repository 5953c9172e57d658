"""Transposed 3D convolution with stride 2, batch normalisation by running statistics, average pooling twice."""

import torch
import torch.nn as nn

BATCH = 3
IN_CHANNELS = 3
OUT_CHANNELS = 16
DEPTH = 12
HEIGHT = 20
WIDTH = 20
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
POOL_SIZE = 2
SIZES = {
    "small": {"BATCH": 2, "OUT_CHANNELS": 8, "DEPTH": 5, "HEIGHT": 9, "WIDTH": 8},
    "held_out": {"BATCH": 5, "IN_CHANNELS": 5, "OUT_CHANNELS": 13, "DEPTH": 7, "HEIGHT": 6, "WIDTH": 11},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, pool_size: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.norm = nn.BatchNorm3d(out_channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)
        self.pool = nn.AvgPool3d(pool_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(self.pool(self.norm(self.conv(x))))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 5]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING, POOL_SIZE]
