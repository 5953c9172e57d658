"""Linear layer, swish (x sigmoid(x)), then scaled by a constant."""

import torch
import torch.nn as nn

BATCH = 128
IN_FEATURES = 1280
OUT_FEATURES = 1280


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, scale: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return y * torch.sigmoid(y) * self.scale


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 3]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 2.0]
