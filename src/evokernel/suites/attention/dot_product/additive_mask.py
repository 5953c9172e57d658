"""Attention with a bias for every head and pair of tokens, added to the scores and shared by the batch."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
HEADS = 8
QUERIES = 192
KEYS = 256
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def get_inputs():
    q = torch.randn(BATCH, HEADS, QUERIES, HEAD_DIM)
    k = torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)
    v = torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)
    return [q, k, v, torch.randn(HEADS, QUERIES, KEYS) * 2]


def get_init_inputs():
    return []
