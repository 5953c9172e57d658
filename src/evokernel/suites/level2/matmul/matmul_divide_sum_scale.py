"""Rows of a product with a transposed weight, divided, summed and scaled: sum_j (x W^T / d)_j s."""

import torch
import torch.nn as nn

BATCH = 512
IN_FEATURES = 1024
OUT_FEATURES = 1024


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, divisor: float, factor: float):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / in_features**0.5)
        self.divisor = divisor
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.matmul(x, self.weight.T) / self.divisor
        return y.sum(dim=1, keepdim=True) * self.factor


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, 2.0, 1.5]
