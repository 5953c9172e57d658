"""Transposed convolution in three dimensions, mean over depth, bias per channel, softmax over channels, tanh, factor."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 32
DEPTH = 12
HEIGHT = 24
WIDTH = 24
KERNEL_SIZE = 3
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 4, "OUT_CHANNELS": 6, "DEPTH": 4, "HEIGHT": 6, "WIDTH": 8},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 3, "HEIGHT": 5, "WIDTH": 7},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, factor: float):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, padding=1)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).mean(dim=2, keepdim=True) + self.bias
        return torch.tanh(torch.softmax(y, dim=1)) * self.factor


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) + torch.randn(BATCH, IN_CHANNELS, 1, HEIGHT, WIDTH) * 4]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 2.0]
