"""Two-dimensional convolution with bias, images taller than wide and a 5 x 7 kernel, no padding."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 32
OUT_CHANNELS = 48
HEIGHT = 96
WIDTH = 48
KERNEL_HEIGHT = 5
KERNEL_WIDTH = 7


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: tuple[int, int]):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, (KERNEL_HEIGHT, KERNEL_WIDTH)]
