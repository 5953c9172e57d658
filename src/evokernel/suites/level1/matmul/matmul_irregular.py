"""Product of two matrices whose sizes are no multiples of anything convenient."""

import torch
import torch.nn as nn

M = 1021
K = 357
N = 739


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
