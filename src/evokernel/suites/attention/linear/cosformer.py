"""cosFormer: linear attention on relu(q) and relu(k), weighted by cos(pi/2 (i - j) / length) through its cosine and sine parts."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

FAMILY = "attention"
BATCH = 2
HEADS = 8
LENGTH = 512
HEAD_DIM = 64


class Model(nn.Module):
    def __init__(self, eps: float):
        super().__init__()
        self.eps = eps

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        length = q.shape[2]
        angle = (math.pi / 2 / length * torch.arange(1, length + 1)).unsqueeze(-1)
        turn = torch.cat([angle.cos(), angle.sin()], dim=-1).unsqueeze(-1)
        q, k = ((F.relu(x).unsqueeze(-2) * turn).flatten(-2) for x in (q, k))
        mixed = torch.matmul(q, torch.matmul(k.transpose(-2, -1), v))
        return mixed / torch.matmul(q, k.sum(dim=2).unsqueeze(-1)).clamp_min(self.eps)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape), torch.randn(shape) * 2, torch.randn(shape) * 8]


def get_init_inputs():
    return [1e-3]
