"""Differential attention: the difference of two softmax maps, the second times a learned share, then root-mean-square normalised."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 4
LENGTH = 384
HEAD_DIM = 32


class Model(nn.Module):
    def __init__(self, head_dim: int, start: float, eps: float):
        super().__init__()
        self.start = start
        self.eps = eps
        self.share_q = nn.Parameter(torch.randn(2, head_dim) * 0.3)
        self.share_k = nn.Parameter(torch.randn(2, head_dim) * 0.3)
        self.weight = nn.Parameter(torch.rand(2 * head_dim) + 0.5)

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        first, second = (self.share_q * self.share_k).sum(dim=-1).exp()
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        maps = torch.softmax(scores, dim=-1)
        mixed = torch.matmul(maps[:, :, 0] - (first - second + self.start) * maps[:, :, 1], v)
        return F.rms_norm(mixed, mixed.shape[-1:], self.weight, self.eps) * (1 - self.start)


def get_inputs():
    pair = (BATCH, HEADS, 2, LENGTH, HEAD_DIM)
    return [torch.randn(pair) * 2, torch.randn(pair), torch.randn(BATCH, HEADS, LENGTH, 2 * HEAD_DIM)]


def get_init_inputs():
    return [HEAD_DIM, 0.2, 1e-5]
