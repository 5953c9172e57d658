"""Linear layer, group normalisation of each row, leaky ReLU, and the result added to itself."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 256
IN_FEATURES = 1024
GROUPS = 48
GROUP_SIZE = 20


class Model(nn.Module):
    def __init__(self, in_features: int, groups: int, group_size: int, slope: float):
        super().__init__()
        self.linear = nn.Linear(in_features, groups * group_size)
        self.norm = nn.GroupNorm(groups, groups * group_size)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.slope = slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.leaky_relu(self.norm(self.linear(x)), self.slope)
        return y + y


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 2]


def get_init_inputs():
    return [IN_FEATURES, GROUPS, GROUP_SIZE, 0.01]
