"""Attention over a padded batch: every sequence has a length, and keys from there on do not count."""

import torch
import torch.nn as nn

BATCH = 8
HEADS = 4
QUERIES = 128
KEYS = 256
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        padding = torch.arange(k.shape[2]) >= length[:, None]
        weights = torch.softmax(scores.masked_fill(padding[:, None, None, :], float("-inf")), dim=-1)
        return weights @ v


def get_inputs():
    q = torch.randn(BATCH, HEADS, QUERIES, HEAD_DIM) * 2
    k = torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)
    v = torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)
    return [q, k, v, torch.randint(1, KEYS + 1, (BATCH,))]


def get_init_inputs():
    return []
