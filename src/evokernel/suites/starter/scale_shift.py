"""Broadcast binary operators: every row is scaled and shifted by one vector each."""

import torch
import torch.nn as nn

ROWS = 1024
COLS = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
        return x * scale[None, :] + shift[None, :]


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(COLS), torch.randn(COLS)]


def get_init_inputs():
    return []
