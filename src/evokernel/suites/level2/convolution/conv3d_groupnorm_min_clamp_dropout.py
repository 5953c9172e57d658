"""Three-dimensional convolution, group normalisation, a learned ceiling per channel, clamp to [-1, 1], dropout (idle at inference)."""

import torch
import torch.nn as nn

BATCH = 3
IN_CHANNELS = 3
GROUPS = 8
GROUP_SIZE = 2
DEPTH = 12
HEIGHT = 32
WIDTH = 28
KERNEL_SIZE = 3
SIZES = {
    "small": {"BATCH": 2, "GROUPS": 4, "DEPTH": 8, "HEIGHT": 12, "WIDTH": 10},
    "held_out": {"BATCH": 5, "IN_CHANNELS": 7, "GROUPS": 5, "GROUP_SIZE": 3, "DEPTH": 7, "HEIGHT": 13, "WIDTH": 11},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, groups: int, group_size: int, kernel_size: int, dropout: float):
        super().__init__()
        channels = groups * group_size
        self.conv = nn.Conv3d(in_channels, channels, kernel_size)
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.ceiling = nn.Parameter(torch.rand(channels, 1, 1, 1) * 1.5)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.minimum(self.norm(self.conv(x)), self.ceiling)
        return self.dropout(y.clamp(-1.0, 1.0))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, GROUPS, GROUP_SIZE, KERNEL_SIZE, 0.2]
