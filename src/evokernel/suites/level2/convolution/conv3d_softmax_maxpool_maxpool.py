"""Three-dimensional convolution, softmax over channels, two max poolings in a row."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 3
OUT_CHANNELS = 16
DEPTH = 18
HEIGHT = 34
WIDTH = 34
KERNEL_SIZE = 3
POOL = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 3, "OUT_CHANNELS": 6, "DEPTH": 10, "HEIGHT": 12, "WIDTH": 14},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 11, "HEIGHT": 17, "WIDTH": 13},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, pool: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.pool = nn.MaxPool3d(pool)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        p = torch.softmax(self.conv(x), dim=1)
        return self.pool(self.pool(p))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 3]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, POOL]
