"""Attention with Shaw's relative positions: a learned vector per clipped distance joins the keys, another the values."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 8
LENGTH = 128
HEAD_DIM = 64
CLIP = 16


class Model(nn.Module):
    def __init__(self, clip: int, head_dim: int):
        super().__init__()
        self.clip = clip
        self.key_vectors = nn.Parameter(torch.randn(2 * clip + 1, head_dim))
        self.value_vectors = nn.Parameter(torch.randn(2 * clip + 1, head_dim))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        position = torch.arange(q.shape[2])
        clipped = (position[None, :] - position[:, None]).clamp(-self.clip, self.clip) + self.clip
        scores = q @ k.transpose(-2, -1) + torch.einsum("bhid,ijd->bhij", q, self.key_vectors[clipped])
        weights = torch.softmax(scores / q.shape[-1] ** 0.5, dim=-1)
        return weights @ v + torch.einsum("bhij,ijd->bhid", weights, self.value_vectors[clipped])


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 1.5, torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return [CLIP, HEAD_DIM]
