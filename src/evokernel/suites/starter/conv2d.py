"""Two-dimensional convolution with bias: 3 x 3 kernel, stride 1, zero padding of 1."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 32
OUT_CHANNELS = 32
HEIGHT = 48
WIDTH = 48
KERNEL_SIZE = 3


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE]
