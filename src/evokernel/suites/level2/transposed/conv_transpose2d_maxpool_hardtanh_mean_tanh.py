"""Transposed convolution with stride 1, max pooling, clamp to [-1, 1], mean of each channel, tanh."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
IN_CHANNELS = 32
OUT_CHANNELS = 32
HEIGHT = 32
WIDTH = 32
KERNEL_SIZE = 3
POOL = 2


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, pool: int, bound: float):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, padding=1)
        self.pool = nn.MaxPool2d(pool)
        self.bound = bound

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.hardtanh(self.pool(self.conv(x)), -self.bound, self.bound)
        return torch.tanh(y.mean(dim=(2, 3), keepdim=True))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) + torch.randn(BATCH, IN_CHANNELS, 1, 1)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, POOL, 1.0]
