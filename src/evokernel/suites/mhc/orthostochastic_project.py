"""Orthostochastic projection: the nearest orthogonal matrix by a quintic Newton-Schulz iteration, squared element by element."""

import torch
import torch.nn as nn

MATRICES = 512
STREAMS = 16


class Model(nn.Module):
    def __init__(self, steps: int):
        super().__init__()
        self.steps = steps

    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        x = logits / logits.square().sum(dim=(-2, -1), keepdim=True).sqrt()
        for _ in range(self.steps):
            gram = torch.matmul(x, x.transpose(-2, -1))
            x = 1.875 * x + torch.matmul(0.375 * torch.matmul(gram, gram) - 1.25 * gram, x)
        return x.square()


def get_inputs():
    return [torch.eye(STREAMS) * 3 + torch.randn(MATRICES, STREAMS, STREAMS) * 0.5]


def get_init_inputs():
    return [8]
