"""Transformer encoder layer, norm after each residual: self-attention over unpadded keys, then a ReLU feed-forward layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 128
HEADS = 4
HEAD_DIM = 48
HIDDEN = 512
FAMILY = "fuse"
SIZES = {
    "small": {"LENGTH": 24, "HEADS": 2, "HEAD_DIM": 16, "HIDDEN": 128},
    "held_out": {"BATCH": 3, "LENGTH": 29, "HEADS": 3, "HEAD_DIM": 13, "HIDDEN": 97},
}


def layer_norm(width: int) -> nn.LayerNorm:
    norm = nn.LayerNorm(width)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    return norm


class Model(nn.Module):
    def __init__(self, heads: int, head_dim: int, hidden: int):
        super().__init__()
        self.heads = heads
        width = heads * head_dim
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.project = nn.Linear(width, width)
        self.norm1 = layer_norm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.norm2 = layer_norm(width)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query, self.key, self.value))
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        padded = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
        scores = scores.masked_fill(padded[:, None, None, :], float("-inf"))
        attended = torch.matmul(torch.softmax(scores, dim=-1), v).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.project(attended))
        return self.norm2(x + self.down(F.relu(self.up(x))))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS * HEAD_DIM) * 2, torch.randint(LENGTH // 2, LENGTH + 1, (BATCH,))]


def get_init_inputs():
    return [HEADS, HEAD_DIM, HIDDEN]
