"""Transposed convolution, bias per channel, clamp to [0.2, 1], factor, clamp to [0, 1], division by the factor."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 32
OUT_CHANNELS = 32
HEIGHT = 36
WIDTH = 36
KERNEL_SIZE = 3
STRIDE = 2


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, factor: float):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=1, output_padding=1)
        self.factor = factor
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.clamp(self.conv(x) + self.bias, 0.2, 1.0)
        return torch.clamp(y * self.factor, 0.0, 1.0) / self.factor


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, 2.0]
