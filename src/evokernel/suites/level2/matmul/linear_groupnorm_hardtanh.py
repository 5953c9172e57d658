"""Linear layer, group normalisation of each row, clamp to [-2, 2]."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 256
IN_FEATURES = 1024
GROUPS = 16
GROUP_WIDTH = 64


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, groups: int, bound: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.GroupNorm(groups, out_features)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.bound = bound

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.hardtanh(self.norm(self.linear(x)), -self.bound, self.bound)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, GROUPS * GROUP_WIDTH, GROUPS, 2.0]
