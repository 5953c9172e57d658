"""Causal multi-head attention on queries, keys and values packed in one tensor, tokens before heads; the output keeps that order."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 384
HEADS = 6
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, qkv: torch.Tensor) -> torch.Tensor:
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, 3, HEADS, HEAD_DIM) * 1.5]


def get_init_inputs():
    return []
