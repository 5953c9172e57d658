"""Transposed 3D convolution with a wide kernel, scaled, batch normalisation by running statistics, mean over all positions."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 16
DEPTH = 8
HEIGHT = 14
WIDTH = 16
KERNEL_SIZE = 5
SIZES = {
    "small": {"IN_CHANNELS": 8, "OUT_CHANNELS": 12, "DEPTH": 4, "HEIGHT": 8, "WIDTH": 6},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 7, "OUT_CHANNELS": 13, "DEPTH": 5, "HEIGHT": 7, "WIDTH": 11},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, scale: float):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size)
        nn.init.normal_(self.conv.bias)
        self.scale = scale
        self.norm = nn.BatchNorm3d(out_channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x) * self.scale)
        return F.adaptive_avg_pool3d(y, 1)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) + torch.randn(BATCH, IN_CHANNELS, 1, 1, 1)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 2.0]
