"""Linear layer, max pooling of neighbouring features, sum over the pooled features of each row, scaled."""

import torch
import torch.nn as nn

BATCH = 128
IN_FEATURES = 1024
OUT_FEATURES = 1536
KERNEL_SIZE = 2


class Model(nn.Module):
    def __init__(self, in_features: int, out_features: int, kernel_size: int, scale: float):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        nn.init.normal_(self.linear.bias)
        self.pool = nn.MaxPool1d(kernel_size)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pooled = self.pool(self.linear(x).unsqueeze(1)).squeeze(1)
        return pooled.sum(dim=1) * self.scale


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 2]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES, KERNEL_SIZE, 0.5]
