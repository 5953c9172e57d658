"""Scaled dot-product attention with as many heads for keys as for queries: softmax(q k^T / sqrt(d)) v."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 8
QUERIES = 320
KEYS = 384
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs():
    q = torch.randn(BATCH, HEADS, QUERIES, HEAD_DIM) * 2
    return [q, torch.randn(BATCH, HEADS, KEYS, HEAD_DIM), torch.randn(BATCH, HEADS, KEYS, HEAD_DIM)]


def get_init_inputs():
    return []
