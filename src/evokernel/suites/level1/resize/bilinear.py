"""Bilinear interpolation to another height and width: pixel centres are aligned, not the corners."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
CHANNELS = 32
HEIGHT = 48
WIDTH = 64
OUT_HEIGHT = 84
OUT_WIDTH = 100


class Model(nn.Module):
    def __init__(self, height: int, width: int):
        super().__init__()
        self.size = (height, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=self.size, mode="bilinear", align_corners=False)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [OUT_HEIGHT, OUT_WIDTH]
