"""Three-dimensional convolution, division, max pooling, mean of each depth slice, bias per channel, sum over depth."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 8
OUT_CHANNELS = 16
DEPTH = 16
HEIGHT = 32
WIDTH = 32
KERNEL_SIZE = 3
POOL = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 4, "OUT_CHANNELS": 8, "DEPTH": 6, "HEIGHT": 10, "WIDTH": 12},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 9, "HEIGHT": 11, "WIDTH": 13},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, divisor: float, pool: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.divisor = divisor
        self.pool = nn.MaxPool3d(pool)
        self.bias = nn.Parameter(torch.randn(out_channels, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.conv(x) / self.divisor)
        return (y.mean(dim=(3, 4)) + self.bias).sum(dim=2)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) + torch.randn(BATCH, IN_CHANNELS, DEPTH, 1, 1)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 2.0, POOL]
