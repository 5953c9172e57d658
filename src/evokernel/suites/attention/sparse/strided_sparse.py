"""Strided sparse attention, causal: each query sees the last STRIDE positions and, further back, every STRIDE-th one."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 4
LENGTH = 512
HEAD_DIM = 64
STRIDE = 16


class Model(nn.Module):
    def __init__(self, stride: int):
        super().__init__()
        self.stride = stride

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        place = torch.arange(q.shape[2])
        back = place[:, None] - place[None, :]
        seen = (back >= 0) & ((back < self.stride) | (back % self.stride == 0))
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        return torch.matmul(torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1), v)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [STRIDE]
