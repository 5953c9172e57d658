"""CBAM: channels scaled from their means and maxima by one shared network, then places scaled by a 7 x 7 convolution of theirs."""

import torch
import torch.nn as nn
import torch.nn.functional as F

FAMILY = "attention"
BATCH = 4
CHANNELS = 128
HEIGHT = 28
WIDTH = 28
HIDDEN = 16
KERNEL_SIZE = 7


class Model(nn.Module):
    def __init__(self, channels: int, hidden: int, kernel_size: int):
        super().__init__()
        self.down = nn.Linear(channels, hidden)
        self.up = nn.Linear(hidden, channels)
        self.conv = nn.Conv2d(2, 1, kernel_size, padding=kernel_size // 2, bias=False)

    def shared(self, pooled: torch.Tensor) -> torch.Tensor:
        return self.up(F.relu(self.down(pooled)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.sigmoid(self.shared(x.mean(dim=(2, 3))) + self.shared(x.amax(dim=(2, 3))))
        x = x * scale[:, :, None, None]
        maps = torch.cat([x.mean(dim=1, keepdim=True), x.amax(dim=1, keepdim=True)], dim=1)
        return x * torch.sigmoid(self.conv(maps))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) + torch.randn(BATCH, CHANNELS, 1, 1)]


def get_init_inputs():
    return [CHANNELS, HIDDEN, KERNEL_SIZE]
