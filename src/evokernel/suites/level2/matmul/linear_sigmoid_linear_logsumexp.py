"""Two linear layers with a sigmoid between them, log-sum-exp over the outputs."""

import torch
import torch.nn as nn

BATCH = 384
IN_FEATURES = 512
HIDDEN = 1024
OUT_FEATURES = 512


class Model(nn.Module):
    def __init__(self, in_features: int, hidden: int, out_features: int):
        super().__init__()
        self.first = nn.Linear(in_features, hidden)
        self.second = nn.Linear(hidden, out_features)
        nn.init.normal_(self.first.bias)
        nn.init.normal_(self.second.bias)
        nn.init.normal_(self.second.weight, std=4 / hidden**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.second(torch.sigmoid(self.first(x)))
        return torch.logsumexp(y, dim=1)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 4]


def get_init_inputs():
    return [IN_FEATURES, HIDDEN, OUT_FEATURES]
