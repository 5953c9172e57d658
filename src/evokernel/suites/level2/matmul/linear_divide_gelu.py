"""Linear layer, divided by a constant, then GELU (erf form)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 320
IN_FEATURES = 1024
OUT_FEATURES = 640


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, divisor: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        nn.init.normal_(self.linear.bias, std=5.0)
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x) / self.divisor)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 20]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 10.0]
