"""Talking-heads attention: scores and weights are each mixed across heads by a learned matrix, before and after the softmax."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 8
LENGTH = 256
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.mix_scores = nn.Parameter(torch.randn(heads, heads) / heads**0.5)
        self.mix_weights = nn.Parameter(torch.randn(heads, heads) / heads**0.5)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        weights = torch.softmax(torch.einsum("bhqk,hg->bgqk", scores, self.mix_scores), dim=-1)
        return torch.matmul(torch.einsum("bhqk,hg->bgqk", weights, self.mix_weights), v)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [HEADS]
