"""Transposed convolution 4 x 4 x 4 without bias, layer normalisation over width, GELU (erf form), factor."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 32
DEPTH = 6
HEIGHT = 12
WIDTH = 16
KERNEL_SIZE = 4
STRIDE = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 4, "OUT_CHANNELS": 6, "DEPTH": 4, "HEIGHT": 6, "WIDTH": 8},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 3, "HEIGHT": 5, "WIDTH": 7},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, width: int, factor: float):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=1, bias=False)
        self.norm = nn.LayerNorm(stride * width)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.norm(self.conv(x))) * self.factor


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, WIDTH, 1.5]
