"""Product of complex numbers."""

import torch
from torch import nn

N = 96
SIZES = {"small": {"N": 24}}


class Model(nn.Module):
    def forward(self, x, y):
        return x * y


def get_inputs():
    return [torch.randn(N, dtype=torch.complex64), torch.randn(N, dtype=torch.complex64)]
