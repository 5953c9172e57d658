"""Convolution 3 x 3, group normalisation, a learned scale per channel, max pooling 4 x 4, clamp to [0, 1]."""

import torch
import torch.nn as nn

BATCH = 8
IN_CHANNELS = 8
GROUPS = 16
GROUP_SIZE = 4
HEIGHT = 48
WIDTH = 64
KERNEL_SIZE = 3
POOL_SIZE = 4
SIZES = {
    "small": {"BATCH": 2, "GROUPS": 8, "HEIGHT": 20, "WIDTH": 24},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 7, "GROUPS": 7, "GROUP_SIZE": 3, "HEIGHT": 29, "WIDTH": 23},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, groups: int, group_size: int, kernel_size: int, pool_size: int):
        super().__init__()
        channels = groups * group_size
        self.conv = nn.Conv2d(in_channels, channels, kernel_size)
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.scale = nn.Parameter(torch.randn(channels, 1, 1) * 0.5)
        self.pool = nn.MaxPool2d(pool_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x)) * self.scale
        return self.pool(y).clamp(0.0, 1.0)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, GROUPS, GROUP_SIZE, KERNEL_SIZE, POOL_SIZE]
