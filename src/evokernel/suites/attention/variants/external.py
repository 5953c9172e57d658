"""External attention: scores against learned slots, softmax over the tokens, then shares over the slots, which mix learned values."""

import torch
import torch.nn as nn

FAMILY = "attention"
BATCH = 4
TOKENS = 512
WIDTH = 256
SLOTS = 64


class Model(nn.Module):
    def __init__(self, width: int, slots: int, eps: float):
        super().__init__()
        self.eps = eps
        self.keys = nn.Parameter(torch.randn(slots, width) / width**0.5)
        self.values = nn.Parameter(torch.randn(slots, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(torch.matmul(x, self.keys.t()), dim=1)
        weights = weights / (weights.sum(dim=2, keepdim=True) + self.eps)
        return torch.matmul(weights, self.values)


def get_inputs():
    return [torch.randn(BATCH, TOKENS, WIDTH) * 2]


def get_init_inputs():
    return [WIDTH, SLOTS, 1e-9]
