"""Causal attention with linear biases (ALiBi): scores fall with the distance to the key, in every head at its own slope."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 8
LENGTH = 320
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        position = torch.arange(q.shape[2])
        distance = position[:, None] - position[None, :]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 - self.slopes[:, None, None] * distance
        return torch.softmax(scores.masked_fill(distance < 0, float("-inf")), dim=-1) @ v


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [HEADS]
