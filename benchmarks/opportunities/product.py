"""Product of two matrices."""

import torch
import torch.nn as nn

M = 384
K = 256
N = 512
SIZES = {"small": {"M": 64, "K": 64, "N": 128}, "held_out": {"M": 80, "K": 96, "N": 160}}


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
