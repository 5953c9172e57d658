"""Exponential linear unit: x where positive, alpha * (exp(x) - 1) elsewhere."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
CHANNELS = 64
LENGTH = 1024


class Model(nn.Module):
    def __init__(self, alpha: float):
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.elu(x, alpha=self.alpha)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH) * 2]


def get_init_inputs():
    return [0.7]
