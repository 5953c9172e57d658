"""Inverted residual of MobileNetV2: 1 x 1 expansion and 3 x 3 depthwise convolution with ReLU6, 1 x 1 projection, shortcut."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
CHANNELS = 32
EXPANSION = 6
HEIGHT = 40
WIDTH = 40
SIZES = {
    "small": {"CHANNELS": 12, "EXPANSION": 3, "HEIGHT": 20, "WIDTH": 20},
    "held_out": {"BATCH": 3, "CHANNELS": 13, "EXPANSION": 3, "HEIGHT": 17, "WIDTH": 19},
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
    def __init__(self, channels: int, expansion: int):
        super().__init__()
        wide = channels * expansion
        self.expand = convolution(channels, wide, 1)
        self.depthwise = convolution(wide, wide, 3, groups=wide)
        self.project = convolution(wide, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.relu6(self.expand(x))
        out = F.relu6(self.depthwise(out))
        return x + self.project(out)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [CHANNELS, EXPANSION]
