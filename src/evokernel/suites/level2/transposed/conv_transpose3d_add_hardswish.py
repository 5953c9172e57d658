"""Transposed convolution in three dimensions plus a second input, times its own hard swish."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 32
DEPTH = 6
HEIGHT = 12
WIDTH = 12
KERNEL_SIZE = 3
STRIDE = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 4, "OUT_CHANNELS": 6, "DEPTH": 4, "HEIGHT": 6, "WIDTH": 8},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 3, "HEIGHT": 5, "WIDTH": 7},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=1, output_padding=1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        total = self.conv(x) + y
        return total * F.hardswish(total)


def get_inputs():
    size = (STRIDE * DEPTH, STRIDE * HEIGHT, STRIDE * WIDTH)
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2, torch.randn(BATCH, OUT_CHANNELS, *size)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE]
