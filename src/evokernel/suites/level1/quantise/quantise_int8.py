"""Rows as int8 with one power of two as scale per row: the smallest that keeps |x / scale| below 128; halves round to even."""

import torch
import torch.nn as nn

ROWS = 512
COLS = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        largest = torch.amax(torch.abs(x), dim=1)
        _, exponent = torch.frexp(largest)
        scale = torch.ldexp(torch.ones_like(largest), exponent - 7)
        levels = torch.round(x / scale[:, None])
        return torch.clamp(levels, -127, 127).to(torch.int8), scale


def get_inputs():
    return [torch.randn(ROWS, COLS) * torch.exp2(torch.randn(ROWS, 1) * 2)]


def get_init_inputs():
    return []
