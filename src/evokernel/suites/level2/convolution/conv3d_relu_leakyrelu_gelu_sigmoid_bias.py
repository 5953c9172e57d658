"""Three-dimensional convolution, ReLU, leaky ReLU, GELU (erf form), sigmoid, then a bias per channel."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 8
OUT_CHANNELS = 32
DEPTH = 12
HEIGHT = 28
WIDTH = 28
KERNEL_SIZE = 3
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 4, "OUT_CHANNELS": 8, "DEPTH": 6, "HEIGHT": 10, "WIDTH": 12},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 7, "HEIGHT": 11, "WIDTH": 13},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, slope: float):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        nn.init.normal_(self.conv.bias)
        self.slope = slope
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.leaky_relu(torch.relu(self.conv(x)), self.slope)
        return torch.sigmoid(F.gelu(y)) + self.bias


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 0.01]
