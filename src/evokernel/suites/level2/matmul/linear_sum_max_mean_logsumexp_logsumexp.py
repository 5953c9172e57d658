"""Linear layer, then one axis less at every step: sum of a group, maximum, mean, log-sum-exp twice."""

import torch
import torch.nn as nn

BATCH = 4
BLOCKS = 5
TOKENS = 32
IN_FEATURES = 256
HEADS = 8
GROUPS = 8
GROUP_WIDTH = 16


class Model(nn.Module):
    def __init__(self, in_features: int, heads: int, groups: int, group_width: int):
        super().__init__()
        self.linear = nn.Linear(in_features, heads * groups * group_width)
        self.parts = (heads, groups, group_width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).unflatten(-1, self.parts).sum(dim=-1)
        y = y.amax(dim=-1).mean(dim=2)
        return torch.logsumexp(torch.logsumexp(y, dim=2), dim=1)


def get_inputs():
    return [torch.randn(BATCH, BLOCKS, TOKENS, IN_FEATURES) + torch.randn(BATCH, 1, 1, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, HEADS, GROUPS, GROUP_WIDTH]
