"""Two-dimensional convolution with a dilated 5 x 9 kernel, zero-padded so that the image keeps its size."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 32
OUT_CHANNELS = 48
HEIGHT = 64
WIDTH = 48
KERNEL_HEIGHT = 5
KERNEL_WIDTH = 9
DILATION_HEIGHT = 2
DILATION_WIDTH = 3


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: tuple[int, int], dilation: tuple[int, int]):
        super().__init__()
        padding = (dilation[0] * (kernel_size[0] // 2), dilation[1] * (kernel_size[1] // 2))
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=padding, dilation=dilation, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, (KERNEL_HEIGHT, KERNEL_WIDTH), (DILATION_HEIGHT, DILATION_WIDTH)]
