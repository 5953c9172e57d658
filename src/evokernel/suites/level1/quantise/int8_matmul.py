"""Product of two int8 matrices, summed in int32, then scaled per row and per column, with a bias: a linear layer of quantised weights."""

import torch
import torch.nn as nn

FAMILY = "quantise"
M = 256
K = 512
N = 384


class Model(nn.Module):
    def forward(
        self, a: torch.Tensor, b: torch.Tensor, row_scale: torch.Tensor, column_scale: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        total = torch.matmul(a.to(torch.int32), b.to(torch.int32).T)
        return total * row_scale[:, None] * column_scale[None, :] + bias


def get_inputs():
    a = torch.randint(-127, 128, (M, K), dtype=torch.int8)
    b = torch.randint(-127, 128, (N, K), dtype=torch.int8)
    return [a, b, (0.5 + torch.rand(M)) * 0.01, (0.5 + torch.rand(N)) * 0.01, torch.randn(N)]


def get_init_inputs():
    return []
