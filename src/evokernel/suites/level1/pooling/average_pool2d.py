"""Two-dimensional average pooling of 11 x 11 windows that do not overlap; remaining elements at the border are dropped."""

import torch
import torch.nn as nn

BATCH = 4
CHANNELS = 32
HEIGHT = 80
WIDTH = 100
KERNEL_SIZE = 11
SIZES = {"small": {"CHANNELS": 8, "HEIGHT": 34, "WIDTH": 45}}


class Model(nn.Module):
    def __init__(self, kernel_size: int):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * 3]


def get_init_inputs():
    return [KERNEL_SIZE]
