"""Product of a tall, narrow and a wide, flat matrix: a short inner dimension, a large result."""

import torch
import torch.nn as nn

M = 1536
K = 32
N = 1280


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
