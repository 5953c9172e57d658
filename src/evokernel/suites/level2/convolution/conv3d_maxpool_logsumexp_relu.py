"""Three-dimensional convolution with padding 1, max pooling, log-sum-exp over channels, ReLU."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 16
OUT_CHANNELS = 16
DEPTH = 16
HEIGHT = 28
WIDTH = 28
KERNEL_SIZE = 3
POOL = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 4, "OUT_CHANNELS": 12, "DEPTH": 6, "HEIGHT": 8, "WIDTH": 12},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 13, "DEPTH": 7, "HEIGHT": 11, "WIDTH": 13},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, pool: int):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)
        nn.init.uniform_(self.conv.bias, -6.0, -4.0)
        self.pool = nn.MaxPool3d(pool)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.pool(self.conv(x))
        return torch.relu(torch.logsumexp(y, dim=1, keepdim=True))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 2 + torch.randn(BATCH, IN_CHANNELS, DEPTH, 1, 1) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, POOL]
