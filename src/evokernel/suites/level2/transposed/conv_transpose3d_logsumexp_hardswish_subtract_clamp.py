"""Transposed 3D convolution, stride 2, log-sum-exp over channels, the soft gate x sigmoid(x + 3) / 6, a learned bias taken off, clamp."""

import torch
import torch.nn as nn

BATCH = 4
IN_CHANNELS = 3
OUT_CHANNELS = 16
DEPTH = 8
HEIGHT = 20
WIDTH = 24
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
SIZES = {
    "small": {"BATCH": 2, "OUT_CHANNELS": 8, "DEPTH": 4, "HEIGHT": 10, "WIDTH": 8},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 5, "OUT_CHANNELS": 13, "DEPTH": 5, "HEIGHT": 7, "WIDTH": 11},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        nn.init.normal_(self.conv.bias)
        self.bias = nn.Parameter(torch.rand(1, 1, 1, 1) - 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.logsumexp(self.conv(x), dim=1, keepdim=True)
        y = y * torch.sigmoid(y + 3) / 6
        return (y - self.bias).clamp(-1.0, 1.0)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH) * 20]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING]
