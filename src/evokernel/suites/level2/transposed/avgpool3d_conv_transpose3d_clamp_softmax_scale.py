"""Average pooling, transposed convolution in three dimensions, clamp to [-2, 2], softmax over channels, scale per channel."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 16
DEPTH = 12
HEIGHT = 24
WIDTH = 24
KERNEL_SIZE = 3
POOL = 2
STRIDE = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 4, "OUT_CHANNELS": 6, "DEPTH": 6, "HEIGHT": 8, "WIDTH": 10},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 7, "DEPTH": 7, "HEIGHT": 11, "WIDTH": 13},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, pool: int, bound: float):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=1, output_padding=1)
        nn.init.normal_(self.conv.bias)
        self.pool = nn.AvgPool3d(pool)
        self.bound = bound
        self.scale = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.clamp(self.conv(self.pool(x)), -self.bound, self.bound)
        return torch.softmax(y, dim=1) * self.scale


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 12]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, POOL, 2.0]
