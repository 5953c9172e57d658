"""Transposed convolution, minimum over channels, sum over height, GELU (erf form), one bias for all."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
IN_CHANNELS = 32
OUT_CHANNELS = 64
HEIGHT = 32
WIDTH = 32
KERNEL_SIZE = 3
STRIDE = 2


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride, padding=1, output_padding=1)
        nn.init.uniform_(self.conv.weight, -0.01, 0.03)
        self.bias = nn.Parameter(torch.randn(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        lowest = self.conv(x).amin(dim=1, keepdim=True)
        return F.gelu(lowest.sum(dim=2, keepdim=True)) + self.bias


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) + torch.randn(BATCH, 1, 1, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE]
