"""Linear layer over sequences, a scale per feature, batch normalisation with features as channels: output (batch, features, length)."""

import torch
import torch.nn as nn

BATCH = 8
LENGTH = 96
IN_FEATURES = 512
OUT_FEATURES = 512


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
        y = self.linear(x) * self.scale
        return self.norm(y.transpose(1, 2))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, IN_FEATURES) * 2]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
