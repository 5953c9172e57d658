"""One-dimensional convolution whose taps lie 4 apart and whose outputs lie 3 apart, without bias."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 64
OUT_CHANNELS = 128
LENGTH = 6144
KERNEL_SIZE = 3
STRIDE = 3
DILATION = 4


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, dilation: int):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride=stride, dilation=dilation, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, LENGTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, DILATION]
