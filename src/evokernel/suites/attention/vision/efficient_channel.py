"""Efficient channel attention: a short convolution along the channel means, then sigmoid, scales the channels."""

import torch
import torch.nn as nn

FAMILY = "attention"
BATCH = 6
CHANNELS = 128
HEIGHT = 32
WIDTH = 24
KERNEL_SIZE = 5


class Model(nn.Module):
    def __init__(self, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, kernel_size, padding=kernel_size // 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = x.mean(dim=(2, 3)).unsqueeze(1)
        return x * torch.sigmoid(self.conv(means)).transpose(1, 2).unsqueeze(-1)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) + torch.randn(BATCH, CHANNELS, 1, 1) * 2]


def get_init_inputs():
    return [KERNEL_SIZE]
