"""Convolution 3 x 3, ReLU, hard swish written out: x min(max((x + 3) / 6, 0), 1)."""

import torch
import torch.nn as nn

BATCH = 6
IN_CHANNELS = 8
OUT_CHANNELS = 64
HEIGHT = 40
WIDTH = 56
KERNEL_SIZE = 3


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x))
        return y * torch.clamp((y + 3) / 6, 0, 1)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 4]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE]
