"""Induced set attention: learned points attend to the set, then the set attends to their results; each followed by a layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
MEMBERS = 512
POINTS = 32
HEADS = 4
HEAD_DIM = 32
WIDTH = HEADS * HEAD_DIM


class Attend(nn.Module):
    def __init__(self, heads: int, width: int):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        parts = (self.q(x), *self.kv(y).chunk(2, dim=-1))
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mixed = (q + F.scaled_dot_product_attention(q, k, v)).transpose(1, 2).flatten(2)
        return mixed + F.relu(self.out(mixed))


class Model(nn.Module):
    def __init__(self, heads: int, points: int, width: int):
        super().__init__()
        self.points = nn.Parameter(torch.randn(points, width) * 3)
        self.gather = Attend(heads, width)
        self.spread = Attend(heads, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.spread(x, self.gather(self.points.expand(x.shape[0], -1, -1), x))


def get_inputs():
    return [torch.randn(BATCH, MEMBERS, WIDTH) * 3]


def get_init_inputs():
    return [HEADS, POINTS, WIDTH]
