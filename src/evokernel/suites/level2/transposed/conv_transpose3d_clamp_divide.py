"""Transposed 3D convolution with stride 2, values below a floor raised to it, divided by a constant."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 32
DEPTH = 6
HEIGHT = 12
WIDTH = 12
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
SIZES = {
    "small": {"BATCH": 1, "IN_CHANNELS": 8, "OUT_CHANNELS": 16, "DEPTH": 4, "HEIGHT": 8, "WIDTH": 6},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 7, "OUT_CHANNELS": 13, "DEPTH": 5, "HEIGHT": 6, "WIDTH": 9},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, floor: float, divisor: float):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.floor, self.divisor = floor, divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).clamp(min=self.floor) / self.divisor


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 8]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING, -1.0, 2.0]
