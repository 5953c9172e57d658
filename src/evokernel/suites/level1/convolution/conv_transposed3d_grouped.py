"""Transposed 3 x 3 x 3 convolution with bias, in groups of channels: stride 2, padding of 1, output padding of 1."""

import torch
import torch.nn as nn

BATCH = 2
GROUPS = 4
GROUP_IN = 8
GROUP_OUT = 6
DEPTH = 8
HEIGHT = 16
WIDTH = 20
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
OUTPUT_PADDING = 1
SIZES = {"small": {"BATCH": 1, "GROUP_IN": 4, "GROUP_OUT": 3, "DEPTH": 6, "HEIGHT": 8, "WIDTH": 10}}


class Model(nn.Module):
    def __init__(self, channels: tuple, kernel_size: int, stride: int, padding: int, output_padding: int, groups: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(*channels, kernel_size, stride, padding, output_padding, groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, GROUPS * GROUP_IN, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [(GROUPS * GROUP_IN, GROUPS * GROUP_OUT), KERNEL_SIZE, STRIDE, PADDING, OUTPUT_PADDING, GROUPS]
