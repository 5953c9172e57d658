"""Transposed convolution 5 x 5, batch normalisation by running statistics, tanh, max pooling, group normalisation."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 32
OUT_CHANNELS = 64
HEIGHT = 24
WIDTH = 24
KERNEL_SIZE = 5
POOL = 2
GROUPS = 8


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, pool: int, groups: int):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, padding=1)
        self.batch_norm = nn.BatchNorm2d(out_channels)
        nn.init.uniform_(self.batch_norm.weight, 0.5, 1.5)
        nn.init.normal_(self.batch_norm.bias)
        self.batch_norm.running_mean.normal_()
        self.batch_norm.running_var.uniform_(0.5, 2.0)
        self.pool = nn.MaxPool2d(pool)
        self.group_norm = nn.GroupNorm(groups, out_channels)
        nn.init.uniform_(self.group_norm.weight, 0.5, 1.5)
        nn.init.normal_(self.group_norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.batch_norm(self.conv(x)))
        return self.group_norm(self.pool(y))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, POOL, GROUPS]
