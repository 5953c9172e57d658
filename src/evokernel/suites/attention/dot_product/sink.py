"""Causal attention with a sink: a learned logit per head joins each softmax and takes weight, but has no value."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 8
LENGTH = 320
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.sink = nn.Parameter(torch.randn(heads) * 2 + 2)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
        sink = self.sink[:, None, None].expand(*scores.shape[:3], 1)
        weights = torch.softmax(torch.cat([sink, scores], dim=-1), dim=-1)
        return weights[..., 1:] @ v


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [HEADS]
