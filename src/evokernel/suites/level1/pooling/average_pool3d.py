"""Three-dimensional average pooling: 3 x 3 x 3 window, stride 2, padding of 1 that does not count in the mean."""

import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 24
DEPTH = 24
HEIGHT = 32
WIDTH = 48
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
SIZES = {"small": {"CHANNELS": 8, "DEPTH": 10, "HEIGHT": 12, "WIDTH": 16}}


class Model(nn.Module):
    def __init__(self, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.pool = nn.AvgPool3d(kernel_size, stride=stride, padding=padding, count_include_pad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [KERNEL_SIZE, STRIDE, PADDING]
