"""Non-local block: every place of an image attends to all places through 1 x 1 convolutions, and adds the result to itself."""

import torch
import torch.nn as nn

FAMILY = "attention"
BATCH = 2
CHANNELS = 64
INNER = 32
HEIGHT = 20
WIDTH = 24


class Model(nn.Module):
    def __init__(self, channels: int, inner: int):
        super().__init__()
        self.q = nn.Conv2d(channels, inner, 1, bias=False)
        self.k = nn.Conv2d(channels, inner, 1, bias=False)
        self.v = nn.Conv2d(channels, inner, 1)
        self.out = nn.Conv2d(inner, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).flatten(2) for part in (self.q, self.k, self.v))
        weights = torch.softmax(torch.matmul(q.transpose(1, 2), k), dim=-1)
        mixed = torch.matmul(v, weights.transpose(1, 2))
        return x + self.out(mixed.unflatten(2, x.shape[2:]))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS, INNER]
