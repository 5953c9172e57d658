"""Layer normalisation over the last three axes at once, with weight and bias for every element."""

import torch
import torch.nn as nn

BATCH = 6
CHANNELS = 32
HEIGHT = 64
WIDTH = 64


class Model(nn.Module):
    def __init__(self, channels: int, height: int, width: int):
        super().__init__()
        self.norm = nn.LayerNorm((channels, height, width))
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    scale = 0.5 + 2 * torch.rand(BATCH, 1, 1, 1)
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * scale + torch.randn(BATCH, 1, 1, 1)]


def get_init_inputs():
    return [CHANNELS, HEIGHT, WIDTH]
