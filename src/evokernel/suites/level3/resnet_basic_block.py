"""Residual block of ResNet-18: two 3 x 3 convolutions with batch norm, the first with stride 2, and a projected shortcut."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 32
OUT_CHANNELS = 64
HEIGHT = 40
WIDTH = 40
STRIDE = 2
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 16, "OUT_CHANNELS": 24, "HEIGHT": 20, "WIDTH": 20},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 11, "OUT_CHANNELS": 23, "HEIGHT": 19, "WIDTH": 17},
}


def convolution(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    norm = nn.BatchNorm2d(outputs)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    conv = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, norm)


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, stride: int):
        super().__init__()
        self.first = convolution(in_channels, out_channels, 3, stride)
        self.second = convolution(out_channels, out_channels, 3)
        self.shortcut = convolution(in_channels, out_channels, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.second(torch.relu(self.first(x)))
        return torch.relu(out + self.shortcut(x))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, STRIDE]
