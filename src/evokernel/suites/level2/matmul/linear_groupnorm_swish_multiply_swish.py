"""Linear layer, group normalisation of each row, swish, times a learned vector, swish again."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 256
IN_FEATURES = 896
GROUPS = 32
GROUP_SIZE = 28


class Model(nn.Module):
    def __init__(self, in_features: int, groups: int, group_size: int):
        super().__init__()
        features = groups * group_size
        self.linear = nn.Linear(in_features, features)
        self.norm = nn.GroupNorm(groups, features)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.factor = nn.Parameter(torch.randn(features) * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.silu(self.norm(self.linear(x)))
        return F.silu(y * self.factor)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 2]


def get_init_inputs():
    return [IN_FEATURES, GROUPS, GROUP_SIZE]
