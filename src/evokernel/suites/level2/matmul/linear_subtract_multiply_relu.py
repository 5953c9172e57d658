"""Linear layer, a constant taken off, a constant factor, ReLU."""

import torch
import torch.nn as nn

BATCH = 256
IN_FEATURES = 1024
OUT_FEATURES = 1024


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, offset: float, factor: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.offset = offset
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu((self.linear(x) - self.offset) * self.factor)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 4]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 2.0, 1.5]
