"""Products of matrices, one for each member of a batch."""

import torch
import torch.nn as nn

BATCH = 32
M = 128
K = 96
N = 160


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, M, K), torch.randn(BATCH, K, N)]


def get_init_inputs():
    return []
