"""A tensor of four axes times a matrix: out[b, i, j, k] = sum over l of x[b, i, j, l] * w[l, k]."""

import torch
import torch.nn as nn

BATCH = 4
ROWS = 24
COLS = 40
INNER = 128
OUTER = 192


class Model(nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bijl,lk->bijk", x, w)


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLS, INNER), torch.randn(INNER, OUTER)]


def get_init_inputs():
    return []
