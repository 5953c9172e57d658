"""Retention, parallel form: (q k^T * decay^(i - j)) v for j <= i with one decay per head, normalised per head, gated by silu."""

import torch
import torch.nn as nn
import torch.nn.functional as F

FAMILY = "attention"
BATCH = 2
HEADS = 4
LENGTH = 512
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.register_buffer("decay", 1 - torch.exp2(-5 - torch.arange(heads).float()))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        place = torch.arange(q.shape[2])
        back = place[:, None] - place[None, :]
        fade = torch.where(back >= 0, self.decay[:, None, None] ** back.clamp_min(0), 0.0)
        kept = torch.matmul(torch.matmul(q, k.transpose(-2, -1)) * fade / q.shape[-1] ** 0.5, v)
        return F.silu(gate) * F.layer_norm(kept, kept.shape[-1:])


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape), torch.randn(shape), torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [HEADS]
