"""Linear layer, a scale per feature, batch normalisation by running statistics."""

import torch
import torch.nn as nn

BATCH = 256
IN_FEATURES = 1024
OUT_FEATURES = 1024


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.scale = nn.Parameter(torch.randn(out_features))
        self.norm = nn.BatchNorm1d(out_features)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x) * self.scale)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 2]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
