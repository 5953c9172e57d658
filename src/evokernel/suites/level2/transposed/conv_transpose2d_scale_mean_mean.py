"""Transposed convolution, factor, mean over width and then over height."""

import torch
import torch.nn as nn

BATCH = 8
IN_CHANNELS = 32
OUT_CHANNELS = 64
HEIGHT = 24
WIDTH = 24
KERNEL_SIZE = 3
STRIDE = 2


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, factor: float):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=1, output_padding=1)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x) * self.factor
        return y.mean(dim=3, keepdim=True).mean(dim=2, keepdim=True)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) + torch.randn(BATCH, IN_CHANNELS, 1, 1) * 4]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, 0.5]
