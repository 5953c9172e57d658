"""Transposed 3D convolution with stride 2, swish, group normalisation, hard swish."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 3
GROUPS = 4
GROUP_SIZE = 4
DEPTH = 8
HEIGHT = 20
WIDTH = 16
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
SIZES = {
    "small": {"BATCH": 1, "GROUP_SIZE": 3, "DEPTH": 5, "HEIGHT": 8, "WIDTH": 10},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "GROUPS": 3, "GROUP_SIZE": 5, "DEPTH": 4, "HEIGHT": 9, "WIDTH": 6},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, groups: int, group_size: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        channels = groups * group_size
        self.conv = nn.ConvTranspose3d(in_channels, channels, kernel_size, stride=stride, padding=padding)
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardswish(self.norm(F.silu(self.conv(x))))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 3]


def get_init_inputs():
    return [IN_CHANNELS, GROUPS, GROUP_SIZE, KERNEL_SIZE, STRIDE, PADDING]
