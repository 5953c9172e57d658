"""Dilated window: each query sees its own position and RADIUS others on either side, DILATION places apart."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 4
LENGTH = 512
HEAD_DIM = 64
RADIUS = 8
DILATION = 3


class Model(nn.Module):
    def __init__(self, radius: int, dilation: int):
        super().__init__()
        self.radius = radius
        self.dilation = dilation

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        place = torch.arange(q.shape[2])
        distance = (place[:, None] - place[None, :]).abs()
        hidden = (distance > self.radius * self.dilation) | (distance % self.dilation != 0)
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        return torch.matmul(torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1), v)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [RADIUS, DILATION]
