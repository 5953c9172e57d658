"""Three-dimensional convolution, Mish, tanh."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 32
DEPTH = 14
HEIGHT = 26
WIDTH = 26
KERNEL_SIZE = 3
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 4, "OUT_CHANNELS": 8, "DEPTH": 6, "HEIGHT": 10, "WIDTH": 12},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 7, "HEIGHT": 11, "WIDTH": 13},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(F.mish(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE]
