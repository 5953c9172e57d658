"""Product of two batches of matrices."""

import torch
import torch.nn as nn

BATCH = 24
M = 96
K = 128
N = 96


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, M, K), torch.randn(BATCH, K, N)]


def get_init_inputs():
    return []
