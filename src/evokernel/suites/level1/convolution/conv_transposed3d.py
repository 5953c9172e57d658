"""Transposed three-dimensional convolution with a 3 x 5 x 7 kernel: no stride, no padding, no bias."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 8
DEPTH = 10
HEIGHT = 20
WIDTH = 28
KERNEL_SIZE = (3, 5, 7)
SIZES = {"small": {"BATCH": 1, "IN_CHANNELS": 8, "OUT_CHANNELS": 6, "DEPTH": 6, "HEIGHT": 10, "WIDTH": 14}}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: tuple[int, int, int]):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE]
