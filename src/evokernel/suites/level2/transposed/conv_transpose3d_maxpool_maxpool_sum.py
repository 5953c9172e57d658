"""Transposed 3D convolution with a wide kernel, stride 2 and no bias, max pooling by 2 and by 3, sum over the channels."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 16
DEPTH = 8
HEIGHT = 16
WIDTH = 14
KERNEL_SIZE = 5
STRIDE = 2
PADDING = 2
FIRST_POOL = 2
SECOND_POOL = 3
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 8, "OUT_CHANNELS": 8, "DEPTH": 7, "HEIGHT": 8, "WIDTH": 10},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 7, "OUT_CHANNELS": 13, "DEPTH": 8, "HEIGHT": 11, "WIDTH": 9},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, first_pool: int, second_pool: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding, bias=False)
        self.first = nn.MaxPool3d(first_pool)
        self.second = nn.MaxPool3d(second_pool)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(self.first(self.conv(x)))
        return y.sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING, FIRST_POOL, SECOND_POOL]
