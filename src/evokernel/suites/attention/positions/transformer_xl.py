"""Causal attention as in Transformer-XL: scores (q + a) k + (q + b) r, r encoding the distance; keys include a memory of earlier tokens."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 8
QUERIES = 160
MEMORY = 96
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, heads: int, head_dim: int):
        super().__init__()
        self.content_bias = nn.Parameter(torch.randn(heads, 1, head_dim))
        self.position_bias = nn.Parameter(torch.randn(heads, 1, head_dim))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, encoding: torch.Tensor) -> torch.Tensor:
        queries, keys = q.shape[2], k.shape[2]
        content = (q + self.content_bias) @ k.transpose(-2, -1)
        by_distance = (q + self.position_bias) @ encoding.transpose(-2, -1)
        distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
        position = by_distance.gather(-1, distance.clamp(min=0).expand(*by_distance.shape[:2], -1, -1))
        scores = (content + position) / q.shape[-1] ** 0.5
        return torch.softmax(scores.masked_fill(distance < 0, float("-inf")), dim=-1) @ v


def get_inputs():
    keys = (BATCH, HEADS, MEMORY + QUERIES, HEAD_DIM)
    q = torch.randn(BATCH, HEADS, QUERIES, HEAD_DIM)
    return [q, torch.randn(keys), torch.randn(keys), torch.randn(HEADS, MEMORY + QUERIES, HEAD_DIM)]


def get_init_inputs():
    return [HEADS, HEAD_DIM]
