"""Gaussian error linear unit, tanh form: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2, written out."""

import math

import torch
import torch.nn as nn

BATCH = 4
LENGTH = 160
DIM = 1536


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))
        return 0.5 * x * (1 + torch.tanh(inner))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, DIM) * 2]


def get_init_inputs():
    return []
