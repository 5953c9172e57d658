"""Attention to the keys that a mask allows, another set for every query; each query is allowed one at least."""

import torch
import torch.nn as nn

BATCH = 4
HEADS = 8
QUERIES = 192
KEYS = 192
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1)
        return weights @ v


def get_inputs():
    q = torch.randn(BATCH, HEADS, QUERIES, HEAD_DIM) * 2
    k = torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)
    v = torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)
    allowed = torch.rand(BATCH, 1, QUERIES, KEYS) < 0.4
    allowed[..., 0] = True
    return [q, k, v, allowed]


def get_init_inputs():
    return []
