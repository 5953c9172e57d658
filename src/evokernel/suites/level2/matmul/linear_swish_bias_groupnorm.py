"""Linear layer, swish, a bias per feature, group normalisation of each row."""

import torch
import torch.nn as nn

BATCH = 512
IN_FEATURES = 256
GROUPS = 16
GROUP_WIDTH = 64


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, groups: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(out_features))
        self.norm = nn.GroupNorm(groups, out_features)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        return self.norm(torch.sigmoid(y) * y + self.bias)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 2]


def get_init_inputs():
    return [IN_FEATURES, GROUPS * GROUP_WIDTH, GROUPS]
