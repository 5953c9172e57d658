"""Linear layer, the smaller of each value and a learned bound, less that bound."""

import torch
import torch.nn as nn

BATCH = 128
IN_FEATURES = 1024
OUT_FEATURES = 1024


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, bound: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.bound = nn.Parameter(torch.tensor(bound))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.minimum(self.linear(x), self.bound) - self.bound


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 4]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 2.0]
