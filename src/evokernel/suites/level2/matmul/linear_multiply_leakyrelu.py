"""Linear layer, a constant factor, leaky ReLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 128
IN_FEATURES = 1024
OUT_FEATURES = 2048


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, factor: float, slope: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.factor = factor
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(self.linear(x) * self.factor, self.slope)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 2.0, 0.1]
