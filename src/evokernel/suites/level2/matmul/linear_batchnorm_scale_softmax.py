"""Linear layer, batch normalisation by running statistics, one learned scale, softmax over the features."""

import torch
import torch.nn as nn

BATCH = 384
IN_FEATURES = 1024
OUT_FEATURES = 512


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, eps: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.BatchNorm1d(out_features, eps=eps)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)
        self.scale = nn.Parameter(1.5 + torch.rand(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.scale * self.norm(self.linear(x)), dim=1)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 3]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 1e-5]
