"""Linear layer, averages of neighbouring features, GELU, scaled, then the largest value of each row."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 384
IN_FEATURES = 1024
OUT_FEATURES = 1024
KERNEL_SIZE = 16


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, kernel_size: int, scale: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        nn.init.normal_(self.linear.bias)
        self.pool = nn.AvgPool1d(kernel_size)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = self.pool(self.linear(x).unsqueeze(1)).squeeze(1)
        return (F.gelu(pooled) * self.scale).amax(dim=1)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 4]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, KERNEL_SIZE, 2.0]
