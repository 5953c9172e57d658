"""Transposed convolution 4 x 4, a value per channel taken off, tanh."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 32
OUT_CHANNELS = 32
HEIGHT = 36
WIDTH = 36
KERNEL_SIZE = 4
STRIDE = 2


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=1, output_padding=1)
        self.offset = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.conv(x) - self.offset)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE]
