"""Dense block of three layers: batch norm, ReLU and a 3 x 3 convolution each, whose outputs join the channels all later ones read."""

import torch
import torch.nn as nn

BATCH = 2
IN_CHANNELS = 32
GROWTH = 16
HEIGHT = 48
WIDTH = 48
LAYERS = 3
SIZES = {
    "small": {"IN_CHANNELS": 16, "GROWTH": 8, "HEIGHT": 16, "WIDTH": 16},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 13, "GROWTH": 7, "HEIGHT": 17, "WIDTH": 11},
}


def layer(inputs: int, outputs: int) -> nn.Sequential:
    norm = nn.BatchNorm2d(inputs)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    return nn.Sequential(norm, nn.ReLU(), nn.Conv2d(inputs, outputs, 3, padding=1, bias=False))


class Model(nn.Module):
    def __init__(self, in_channels: int, growth: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList([layer(in_channels + i * growth, growth) for i in range(layers)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return x


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, GROWTH, LAYERS]
