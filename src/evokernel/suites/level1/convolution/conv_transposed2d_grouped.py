"""Transposed 3 x 5 convolution in groups of channels: strides 2 and 3, padding of 1 and 2, dilation of 2 and 1, no bias."""

import torch
import torch.nn as nn

BATCH = 2
GROUPS = 4
GROUP_IN = 12
GROUP_OUT = 16
HEIGHT = 32
WIDTH = 48
KERNEL_SIZE = (3, 5)
STRIDE = (2, 3)
PADDING = (1, 2)
DILATION = (2, 1)
SIZES = {"small": {"BATCH": 1, "GROUP_IN": 4, "GROUP_OUT": 6, "HEIGHT": 16, "WIDTH": 20}}


class Model(nn.Module):
    def __init__(self, channels: tuple, kernel_size: tuple, stride: tuple, padding: tuple, dilation: tuple, groups: int):
        super().__init__()
        self.conv = nn.ConvTranspose2d(*channels, kernel_size, stride=stride, padding=padding, dilation=dilation, groups=groups, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, GROUPS * GROUP_IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [(GROUPS * GROUP_IN, GROUPS * GROUP_OUT), KERNEL_SIZE, STRIDE, PADDING, DILATION, GROUPS]
