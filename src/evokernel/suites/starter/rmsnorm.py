"""Root-mean-square normalisation over the last axis, with a learned weight."""

import torch
import torch.nn as nn

ROWS = 1024
DIM = 1024


class Model(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.randn(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rms = torch.sqrt(torch.mean(x * x, dim=-1, keepdim=True) + self.eps)
        return x / rms * self.weight


def get_inputs():
    return [torch.randn(ROWS, DIM) * 3]


def get_init_inputs():
    return [DIM, 1e-5]
