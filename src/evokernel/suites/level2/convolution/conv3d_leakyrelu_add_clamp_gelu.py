"""Three-dimensional convolution, leaky ReLU, a learned number per channel added, clamp to [-1, 1], GELU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 8
OUT_CHANNELS = 32
DEPTH = 12
HEIGHT = 36
WIDTH = 32
KERNEL_SIZE = 3
SIZES = {
    "small": {"OUT_CHANNELS": 16, "DEPTH": 8, "HEIGHT": 12, "WIDTH": 10},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 7, "OUT_CHANNELS": 11, "DEPTH": 9, "HEIGHT": 13, "WIDTH": 17},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, slope: float):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.addend = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.leaky_relu(self.conv(x), self.slope) + self.addend
        return F.gelu(y.clamp(-1.0, 1.0))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 0.2]
