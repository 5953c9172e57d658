"""Grouped 3 x 3 convolution with bias, zero padding of 1: every group of channels is convolved on its own."""

import torch
import torch.nn as nn

BATCH = 2
GROUPS = 4
GROUP_IN = 24
GROUP_OUT = 32
HEIGHT = 48
WIDTH = 48
KERNEL_SIZE = 3
SIZES = {"small": {"GROUP_IN": 6, "GROUP_OUT": 8, "HEIGHT": 16, "WIDTH": 16}}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, groups: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2, groups=groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, GROUPS * GROUP_IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [GROUPS * GROUP_IN, GROUPS * GROUP_OUT, KERNEL_SIZE, GROUPS]
