"""Transposed convolution 4 x 4 with stride 2, a constant added, the smaller of that and zero, GELU, times a constant."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3
IN_CHANNELS = 32
OUT_CHANNELS = 48
HEIGHT = 24
WIDTH = 28
KERNEL_SIZE = 4
STRIDE = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 16, "OUT_CHANNELS": 24, "HEIGHT": 12, "WIDTH": 14},
    "held_out": {"BATCH": 5, "IN_CHANNELS": 19, "OUT_CHANNELS": 23, "HEIGHT": 7, "WIDTH": 13},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, addend: float, factor: float):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride)
        self.addend, self.factor = addend, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.clamp(self.conv(x) + self.addend, max=0.0)
        return F.gelu(y) * self.factor


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 6]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, 0.5, 2.0]
