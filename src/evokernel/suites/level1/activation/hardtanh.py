"""Clamp to an interval that need not be symmetric."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 64
CHANNELS = 16
LENGTH = 1200


class Model(nn.Module):
    def __init__(self, low: float, high: float):
        super().__init__()
        self.low = low
        self.high = high

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardtanh(x, min_val=self.low, max_val=self.high)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH) * 2]


def get_init_inputs():
    return [-1.0, 1.5]
