"""Linear layer, a second bias, hardtanh to [-1, 1], mish, then group normalisation of each row."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 256
IN_FEATURES = 1024
GROUPS = 24
GROUP_SIZE = 32


class Model(nn.Module):
    def __init__(self, in_features: int, groups: int, group_size: int):
        super().__init__()
        features = groups * group_size
        self.linear = nn.Linear(in_features, features)
        self.bias = nn.Parameter(torch.randn(features))
        self.norm = nn.GroupNorm(groups, features)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.mish(F.hardtanh(self.linear(x) + self.bias))
        return self.norm(y)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 2]


def get_init_inputs():
    return [IN_FEATURES, GROUPS, GROUP_SIZE]
