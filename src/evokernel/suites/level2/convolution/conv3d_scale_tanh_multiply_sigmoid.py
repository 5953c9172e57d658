"""Three-dimensional convolution, scale per channel, tanh, factor per channel, sigmoid."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 3
OUT_CHANNELS = 16
DEPTH = 12
HEIGHT = 32
WIDTH = 32
KERNEL_SIZE = 3
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 3, "OUT_CHANNELS": 8, "DEPTH": 6, "HEIGHT": 10, "WIDTH": 12},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 7, "HEIGHT": 11, "WIDTH": 13},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        nn.init.normal_(self.conv.bias)
        self.scale = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.conv(x) * self.scale)
        return torch.sigmoid(y * self.factor)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE]
