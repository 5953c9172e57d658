"""Transposed convolution, Mish, a constant added, clamp to [-1, 1], factor."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 32
OUT_CHANNELS = 32
HEIGHT = 28
WIDTH = 36
KERNEL_SIZE = 3
STRIDE = 2


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, offset: float, bound: float, factor: float):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=1, output_padding=1)
        self.offset = offset
        self.bound = bound
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.mish(self.conv(x)) + self.offset
        return F.hardtanh(y, -self.bound, self.bound) * self.factor


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, 0.5, 1.0, 2.0]
