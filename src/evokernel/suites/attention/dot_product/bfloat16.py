"""Causal attention on bfloat16: computed in float32 and rounded once, at the end."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 8
LENGTH = 320
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
        return out.to(v.dtype)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    q, k, v = torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)
    return [q.bfloat16(), k.bfloat16(), v.bfloat16()]


def get_init_inputs():
    return []
