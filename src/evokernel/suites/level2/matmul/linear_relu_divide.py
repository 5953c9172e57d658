"""Linear layer, ReLU, then divided by a constant."""

import torch
import torch.nn as nn

BATCH = 192
IN_FEATURES = 1024
OUT_FEATURES = 768


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, divisor: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) / self.divisor


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 3]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 2.0]
