"""Linear layer, then Mish, x tanh(log(1 + e^x)), applied twice."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 192
IN_FEATURES = 768
OUT_FEATURES = 1536


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.mish(F.mish(self.linear(x)))


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 2]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
