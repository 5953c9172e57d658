"""Depthwise 3 x 5 convolution: every channel has its own filter; no padding, no bias."""

import torch
import torch.nn as nn

BATCH = 4
CHANNELS = 64
HEIGHT = 56
WIDTH = 72
KERNEL_HEIGHT = 3
KERNEL_WIDTH = 5


class Model(nn.Module):
    def __init__(self, channels: int, kernel_size: tuple[int, int]):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, groups=channels, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS, (KERNEL_HEIGHT, KERNEL_WIDTH)]
