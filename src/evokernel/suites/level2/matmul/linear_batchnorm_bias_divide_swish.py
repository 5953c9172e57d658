"""Linear layer, batch normalisation by running statistics, one learned bias for all, division by a constant, swish."""

import torch
import torch.nn as nn

BATCH = 256
IN_FEATURES = 1024
OUT_FEATURES = 1024


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, eps: float, divisor: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.BatchNorm1d(out_features, eps=eps)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)
        self.bias = nn.Parameter(torch.randn(1))
        self.divisor = divisor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (self.norm(self.linear(x)) + self.bias) / self.divisor
        return y * torch.sigmoid(y)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 3]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 1e-5, 1.5]
