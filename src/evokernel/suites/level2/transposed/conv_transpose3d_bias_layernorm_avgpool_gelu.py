"""Transposed convolution in three dimensions, bias per channel, layer normalisation over channels, average pooling, GELU (erf form)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 32
DEPTH = 6
HEIGHT = 16
WIDTH = 16
KERNEL_SIZE = 3
POOL = 2
STRIDE = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 4, "OUT_CHANNELS": 6, "DEPTH": 4, "HEIGHT": 6, "WIDTH": 8},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 3, "HEIGHT": 5, "WIDTH": 7},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, pool: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=1, output_padding=1)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.norm = nn.LayerNorm(out_channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.pool = nn.AvgPool3d(pool)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (self.conv(x) + self.bias).movedim(1, -1)
        y = self.norm(y).movedim(-1, 1)
        return F.gelu(self.pool(y))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, POOL]
