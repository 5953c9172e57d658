"""Linear layer, scaled by a constant, cut to an interval (hardtanh), then GELU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 256
IN_FEATURES = 768
OUT_FEATURES = 1024


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, scale: float, low: float, high: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale, self.low, self.high = scale, low, high

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(F.hardtanh(self.linear(x) * self.scale, self.low, self.high))


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 4]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 0.5, -2.0, 2.0]
