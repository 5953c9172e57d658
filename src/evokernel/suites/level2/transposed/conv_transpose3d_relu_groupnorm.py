"""Transposed 3D convolution without bias at stride 1, ReLU, group normalisation."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 16
GROUPS = 8
GROUP_SIZE = 4
DEPTH = 8
HEIGHT = 16
WIDTH = 16
KERNEL_SIZE = 3
SIZES = {
    "small": {"BATCH": 1, "IN_CHANNELS": 8, "GROUPS": 4, "DEPTH": 5, "HEIGHT": 8, "WIDTH": 10},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 7, "GROUPS": 5, "GROUP_SIZE": 3, "DEPTH": 5, "HEIGHT": 11, "WIDTH": 9},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, groups: int, group_size: int, kernel_size: int):
        super().__init__()
        channels = groups * group_size
        self.conv = nn.ConvTranspose3d(in_channels, channels, kernel_size, bias=False)
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.relu(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, GROUPS, GROUP_SIZE, KERNEL_SIZE]
