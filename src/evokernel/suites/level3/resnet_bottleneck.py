"""Bottleneck block of ResNet-50: 1 x 1, 3 x 3 and 1 x 1 convolutions with batch norm around an identity shortcut."""

import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 128
INNER = 32
HEIGHT = 40
WIDTH = 40
SIZES = {
    "small": {"CHANNELS": 48, "INNER": 12, "HEIGHT": 16, "WIDTH": 16},
    "held_out": {"BATCH": 3, "CHANNELS": 37, "INNER": 11, "HEIGHT": 17, "WIDTH": 13},
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
    def __init__(self, channels: int, inner: int):
        super().__init__()
        self.reduce = convolution(channels, inner, 1)
        self.spatial = convolution(inner, inner, 3)
        self.expand = convolution(inner, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.relu(self.reduce(x))
        out = torch.relu(self.spatial(out))
        return torch.relu(x + self.expand(out))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [CHANNELS, INNER]
