"""Floats from uint8 levels, with a scale and a zero point for every group of a row: (level - zero) * scale."""

import torch
import torch.nn as nn

FAMILY = "quantise"
ROWS = 512
GROUPS = 16
GROUP_SIZE = 64


class Model(nn.Module):
    def forward(self, levels: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
        grouped = levels.unflatten(1, (scale.shape[1], -1)).to(torch.int32) - zero[:, :, None].to(torch.int32)
        return (grouped * scale[:, :, None]).flatten(1)


def get_inputs():
    levels = torch.randint(0, 256, (ROWS, GROUPS * GROUP_SIZE), dtype=torch.uint8)
    zero = torch.randint(96, 160, (ROWS, GROUPS), dtype=torch.uint8)
    return [levels, (0.5 + torch.rand(ROWS, GROUPS)) * 0.05, zero]


def get_init_inputs():
    return []
