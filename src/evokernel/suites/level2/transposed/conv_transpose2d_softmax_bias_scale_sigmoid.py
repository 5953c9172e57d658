"""Transposed convolution 4 x 4 with stride 2, softmax over channels, a bias per channel, scaled, sigmoid."""

import torch
import torch.nn as nn

BATCH = 3
IN_CHANNELS = 32
OUT_CHANNELS = 64
HEIGHT = 24
WIDTH = 20
KERNEL_SIZE = 4
STRIDE = 2
PADDING = 1
OUTPUT_PADDING = 1
SIZES = {
    "small": {"BATCH": 2, "IN_CHANNELS": 16, "OUT_CHANNELS": 32, "HEIGHT": 12, "WIDTH": 10},
    "held_out": {"BATCH": 5, "IN_CHANNELS": 13, "OUT_CHANNELS": 37, "HEIGHT": 11, "WIDTH": 7},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int, output_padding: int, scale: float):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding, output_padding)
        nn.init.normal_(self.conv.bias)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(self.conv(x), dim=1) + self.bias
        return torch.sigmoid(y * self.scale)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 8]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING, OUTPUT_PADDING, 2.0]
