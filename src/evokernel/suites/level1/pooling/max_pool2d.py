"""Two-dimensional max pooling of overlapping 4 x 4 windows: stride 1, padding of 1."""

import torch
import torch.nn as nn

BATCH = 4
CHANNELS = 32
HEIGHT = 56
WIDTH = 72
KERNEL_SIZE = 4
STRIDE = 1
PADDING = 1


class Model(nn.Module):
    def __init__(self, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [KERNEL_SIZE, STRIDE, PADDING]
