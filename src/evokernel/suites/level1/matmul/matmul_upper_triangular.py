"""Product of the upper triangles of two square matrices, itself an upper triangle."""

import torch
import torch.nn as nn

SIZE = 512


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(torch.triu(a), torch.triu(b))


def get_inputs():
    return [torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)]


def get_init_inputs():
    return []
