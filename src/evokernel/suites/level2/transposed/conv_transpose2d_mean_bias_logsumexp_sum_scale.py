"""Transposed convolution, mean over width, bias per channel, log-sum-exp over channels, sum over height, factor."""

import torch
import torch.nn as nn

BATCH = 8
IN_CHANNELS = 32
OUT_CHANNELS = 64
HEIGHT = 28
WIDTH = 28
KERNEL_SIZE = 3


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, factor: float):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size)
        nn.init.normal_(self.conv.bias)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).mean(dim=3, keepdim=True) + self.bias
        return torch.logsumexp(y, dim=1, keepdim=True).sum(dim=(2, 3)) * self.factor


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) + torch.randn(BATCH, IN_CHANNELS, 1, 1) * 4]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, 10.0]
