"""Transposed 3D convolution to twice the size, max pooling, softmax over channels, a vector subtracted, swish, largest channel."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 3
OUT_CHANNELS = 16
DEPTH = 8
HEIGHT = 20
WIDTH = 16
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
POOL_SIZE = 2
SIZES = {
    "small": {"BATCH": 2, "OUT_CHANNELS": 8, "DEPTH": 5, "HEIGHT": 8, "WIDTH": 10},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 13, "DEPTH": 7, "HEIGHT": 6, "WIDTH": 11},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, pool_size: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding, output_padding=stride - 1)
        nn.init.normal_(self.conv.bias)
        self.pool = nn.MaxPool3d(pool_size)
        self.subtrahend = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(self.pool(self.conv(x)), dim=1) - self.subtrahend
        return (y * torch.sigmoid(y)).amax(dim=1)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 20]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING, POOL_SIZE]
