"""Three-dimensional convolution 4 x 4 x 4, hard swish, group normalisation, mean over all positions."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
IN_CHANNELS = 3
OUT_CHANNELS = 16
DEPTH = 12
HEIGHT = 24
WIDTH = 24
KERNEL_SIZE = 4
GROUPS = 4
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 3, "OUT_CHANNELS": 8, "DEPTH": 7, "HEIGHT": 10, "WIDTH": 12, "GROUPS": 4},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 21, "DEPTH": 8, "HEIGHT": 11, "WIDTH": 13, "GROUPS": 7},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, groups: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        nn.init.normal_(self.conv.bias)
        self.norm = nn.GroupNorm(groups, out_channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(F.hardswish(self.conv(x)))
        return y.mean(dim=(2, 3, 4))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2 + torch.randn(BATCH, IN_CHANNELS, 1, 1, 1)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, GROUPS]
