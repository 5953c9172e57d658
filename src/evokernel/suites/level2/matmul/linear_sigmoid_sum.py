"""Linear layer, sigmoid, then the sum of each row."""

import torch
import torch.nn as nn

BATCH = 128
IN_FEATURES = 1536
OUT_FEATURES = 1024


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        nn.init.normal_(self.linear.bias, std=2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.linear(x)).sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 4]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
