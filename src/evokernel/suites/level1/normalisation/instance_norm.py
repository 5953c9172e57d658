"""Instance normalisation: each map of each sample by its own mean and variance, then weight and bias."""

import torch
import torch.nn as nn

BATCH = 6
CHANNELS = 40
HEIGHT = 64
WIDTH = 64


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels, affine=True)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    scale = 0.5 + 2 * torch.rand(BATCH, CHANNELS, 1, 1)
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * scale + torch.randn(BATCH, CHANNELS, 1, 1)]


def get_init_inputs():
    return [CHANNELS]
