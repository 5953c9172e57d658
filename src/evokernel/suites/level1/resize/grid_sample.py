"""Images read at points of a warped grid, bilinearly; beyond the border they are zero."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
CHANNELS = 16
HEIGHT = 64
WIDTH = 72
OUT_HEIGHT = 56
OUT_WIDTH = 80


class Model(nn.Module):
    def forward(self, x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def get_inputs():
    down, right = torch.meshgrid(torch.linspace(-1, 1, OUT_HEIGHT), torch.linspace(-1, 1, OUT_WIDTH), indexing="ij")
    grid = torch.stack([right, down], dim=-1) + torch.randn(BATCH, OUT_HEIGHT, OUT_WIDTH, 2) * 0.05
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH), grid]


def get_init_inputs():
    return []
