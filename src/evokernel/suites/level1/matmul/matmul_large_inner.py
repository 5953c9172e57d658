"""Product of a wide and a tall matrix: a long inner dimension, a small result."""

import torch
import torch.nn as nn

M = 80
K = 16384
N = 64


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
