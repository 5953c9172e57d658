"""Longformer pattern: tokens see a window and the global tokens at the start, which see everything by projections of their own."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 4
LENGTH = 512
HEAD_DIM = 64
GLOBALS = 4
RADIUS = 12


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    return torch.matmul(torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1), v)


class Model(nn.Module):
    def __init__(self, radius: int):
        super().__init__()
        self.radius = radius

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        global_q: torch.Tensor,
        global_k: torch.Tensor,
        global_v: torch.Tensor,
    ) -> torch.Tensor:
        count = global_q.shape[2]
        place = torch.arange(q.shape[2])
        near = (place[:, None] - place[None, :]).abs() <= self.radius
        local = attend(q[:, :, count:], k, v, near[count:] | (place < count))
        every = attend(global_q, global_k, global_v, torch.ones_like(place, dtype=torch.bool))
        return torch.cat([every, local], dim=2)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    own = [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape)]
    return [*own, torch.randn(BATCH, HEADS, GLOBALS, HEAD_DIM) * 2, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [RADIUS]
