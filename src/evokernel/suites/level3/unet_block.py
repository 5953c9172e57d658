"""One level of a U-Net: convolve, halve by max pooling, convolve, double by transposed convolution, join the skip, convolve."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 3
CHANNELS = 24
HALF_HEIGHT = 32
HALF_WIDTH = 32
SIZES = {
    "small": {"CHANNELS": 8, "HALF_HEIGHT": 16, "HALF_WIDTH": 12},
    "held_out": {"BATCH": 3, "CHANNELS": 7, "HALF_HEIGHT": 11, "HALF_WIDTH": 13},
}


def convolution(inputs: int, outputs: int) -> nn.Sequential:
    norm = nn.BatchNorm2d(outputs)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), norm, nn.ReLU())


class Model(nn.Module):
    def __init__(self, in_channels: int, channels: int):
        super().__init__()
        self.enter = convolution(in_channels, channels)
        self.bottom = convolution(channels, 2 * channels)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.join = convolution(2 * channels, channels)
        self.head = nn.Conv2d(channels, in_channels, 1)
        nn.init.normal_(self.head.weight, std=0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.enter(x)
        deep = self.up(self.bottom(F.max_pool2d(skip, 2)))
        return self.head(self.join(torch.cat([skip, deep], dim=1)))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, 2 * HALF_HEIGHT, 2 * HALF_WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, CHANNELS]
