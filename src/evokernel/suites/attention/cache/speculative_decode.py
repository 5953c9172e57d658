"""Checking several drafted tokens at once: each attends to the complete cache before the draft, and to the draft up to itself."""

import torch
import torch.nn as nn

BATCH = 4
HEADS = 8
DRAFT = 6
LENGTH = 512
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        draft, length = q.shape[2], keys.shape[2]
        later = torch.ones(draft, length, dtype=torch.bool).triu(length - draft + 1)
        scores = q @ keys.transpose(-2, -1) / q.shape[-1] ** 0.5
        return torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1) @ values


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(BATCH, HEADS, DRAFT, HEAD_DIM) * 3, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return []
