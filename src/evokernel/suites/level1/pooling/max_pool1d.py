"""One-dimensional max pooling with a dilated window: 8 elements 3 apart, stride 1, padding of 4."""

import torch
import torch.nn as nn

BATCH = 4
CHANNELS = 64
LENGTH = 2048
KERNEL_SIZE = 8
STRIDE = 1
PADDING = 4
DILATION = 3


class Model(nn.Module):
    def __init__(self, kernel_size: int, stride: int, padding: int, dilation: int):
        super().__init__()
        self.pool = nn.MaxPool1d(kernel_size, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [KERNEL_SIZE, STRIDE, PADDING, DILATION]
