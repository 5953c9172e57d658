"""First layer of an image classifier: 11 x 11 convolution with bias, stride 4, zero padding of 2."""

import torch
import torch.nn as nn

BATCH = 8
IN_CHANNELS = 3
OUT_CHANNELS = 96
HEIGHT = 112
WIDTH = 112
KERNEL_SIZE = 11
STRIDE = 4
PADDING = 2


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING]
