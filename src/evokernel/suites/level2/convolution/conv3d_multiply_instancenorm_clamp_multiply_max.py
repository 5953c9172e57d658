"""Three-dimensional convolution, channels times learned factors, instance normalisation, clamp, the factors again, largest channel."""

import torch
import torch.nn as nn

BATCH = 8
IN_CHANNELS = 3
OUT_CHANNELS = 16
DEPTH = 12
HEIGHT = 24
WIDTH = 32
KERNEL_SIZE = 3
SIZES = {
    "small": {"BATCH": 2, "OUT_CHANNELS": 8, "DEPTH": 8, "HEIGHT": 10, "WIDTH": 12},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 13, "DEPTH": 7, "HEIGHT": 11, "WIDTH": 17},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, low: float, high: float):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, bias=False)
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.norm = nn.InstanceNorm3d(out_channels)
        self.low, self.high = low, high

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x) * self.factor)
        y = y.clamp(self.low, self.high) * self.factor
        return y.amax(dim=1)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, -1.0, 1.0]
