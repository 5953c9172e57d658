"""One-dimensional average pooling: window of 8, stride 1, padding of 4 whose zeros count in the mean."""

import torch
import torch.nn as nn

BATCH = 8
CHANNELS = 64
LENGTH = 1536
KERNEL_SIZE = 8
STRIDE = 1
PADDING = 4


class Model(nn.Module):
    def __init__(self, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.pool = nn.AvgPool1d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [KERNEL_SIZE, STRIDE, PADDING]
