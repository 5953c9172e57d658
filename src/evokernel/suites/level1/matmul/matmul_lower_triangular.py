"""Product of the lower triangles of two square matrices, itself a lower triangle."""

import torch
import torch.nn as nn

SIZE = 576


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(torch.tril(a), torch.tril(b))


def get_inputs():
    return [torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)]


def get_init_inputs():
    return []
