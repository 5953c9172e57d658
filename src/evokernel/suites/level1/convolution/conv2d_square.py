"""Two-dimensional convolution of square images with a 3 x 3 kernel: no padding, no bias."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 64
SIDE = 96
KERNEL_SIZE = 3


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE]
