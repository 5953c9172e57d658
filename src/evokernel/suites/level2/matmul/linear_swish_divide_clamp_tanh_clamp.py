"""Linear layer, swish, division by a constant, clamp to [-1, 1], tanh, and a closer clamp to [-0.1, 0.7]."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 256
IN_FEATURES = 1024
OUT_FEATURES = 896


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, divisor: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.silu(self.linear(x)) / self.divisor
        return torch.tanh(y.clamp(-1.0, 1.0)).clamp(-0.1, 0.7)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 4]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 2.0]
