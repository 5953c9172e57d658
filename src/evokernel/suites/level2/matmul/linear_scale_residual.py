"""Linear layer, and its result times a constant added to itself."""

import torch
import torch.nn as nn

BATCH = 512
IN_FEATURES = 768
OUT_FEATURES = 768


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, factor: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return y * self.factor + y


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 0.5]
