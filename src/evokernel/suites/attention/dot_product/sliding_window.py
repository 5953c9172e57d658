"""Causal attention within a sliding window: a token attends to itself and to the window - 1 tokens before it."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 8
LENGTH = 384
HEAD_DIM = 64
WINDOW = 96


class Model(nn.Module):
    def __init__(self, window: int):
        super().__init__()
        self.window = window

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        position = torch.arange(q.shape[2])
        distance = position[:, None] - position[None, :]
        outside = (distance < 0) | (distance >= self.window)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return torch.softmax(scores.masked_fill(outside, float("-inf")), dim=-1) @ v


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [WINDOW]
