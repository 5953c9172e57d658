"""Attention by the cosine of queries and keys, times a learned temperature per head, which may not pass 100."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 8
QUERIES = 256
KEYS = 320
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.log_temperature = nn.Parameter(torch.empty(heads, 1, 1).uniform_(2.0, 5.0))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        cosine = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        return torch.softmax(cosine * self.log_temperature.exp().clamp(max=100.0), dim=-1) @ v


def get_inputs():
    q = torch.randn(BATCH, HEADS, QUERIES, HEAD_DIM) * 3
    return [q, torch.randn(BATCH, HEADS, KEYS, HEAD_DIM), torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)]


def get_init_inputs():
    return [HEADS]
