"""Product a^T b^T, with a given as K x M and b as N x K."""

import torch
import torch.nn as nn

M = 512
K = 640
N = 384


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.T, b.T)


def get_inputs():
    return [torch.randn(K, M), torch.randn(N, K)]


def get_init_inputs():
    return []
