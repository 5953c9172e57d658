"""Linear attention with features elu(x) + 1: f(q) (f(k)^T v) over f(q) (f(k)^T 1)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

FAMILY = "attention"
BATCH = 2
HEADS = 8
LENGTH = 768
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k = F.elu(q) + 1, F.elu(k) + 1
        mixed = torch.matmul(q, torch.matmul(k.transpose(-2, -1), v))
        return mixed / torch.matmul(q, k.sum(dim=2).unsqueeze(-1))


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape) * 2, torch.randn(shape) * 8]


def get_init_inputs():
    return []
