"""Product a b^T of bfloat16 matrices, summed in float32, with b given as N x K, as weights of a linear layer are."""

import torch
import torch.nn as nn

M = 320
K = 512
N = 768


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.float(), b.float().T).bfloat16()


def get_inputs():
    return [torch.randn(M, K, dtype=torch.bfloat16), torch.randn(N, K, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
