"""Causal attention over complete earlier blocks, each pooled to one key by learned weights, plus a sliding window; one gate for each."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 4
BLOCKS = 32
BLOCK = 16
HEAD_DIM = 64
WINDOW = 24
LENGTH = BLOCKS * BLOCK
SIZES = {
    "small": {"BLOCKS": 8, "BLOCK": 8, "HEAD_DIM": 16, "WINDOW": 12},
    "held_out": {"BATCH": 1, "HEADS": 3, "BLOCKS": 11, "BLOCK": 7, "HEAD_DIM": 19, "WINDOW": 13},
}


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
    return torch.matmul(torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1), v)


class Model(nn.Module):
    def __init__(self, block: int, window: int):
        super().__init__()
        self.window = window
        self.key_pool = nn.Parameter(torch.randn(block) / block**0.5)
        self.value_pool = nn.Parameter(torch.randn(block) / block**0.5)

    def pooled(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        blocks = torch.einsum("bhnld,l->bhnd", x.unflatten(2, (-1, weights.shape[0])), weights)
        return F.pad(blocks, (0, 0, 1, 0))  # zeros first: the earliest queries have no complete block before them

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, gates: torch.Tensor) -> torch.Tensor:
        place = torch.arange(q.shape[2])
        k_blocks, v_blocks = self.pooled(k, self.key_pool), self.pooled(v, self.value_pool)
        complete = torch.arange(k_blocks.shape[2]) * self.key_pool.shape[0] <= place[:, None] + 1
        coarse = attend(q, k_blocks, v_blocks, complete)
        back = place[:, None] - place[None, :]
        fine = attend(q, k, v, (back >= 0) & (back < self.window))
        share = torch.sigmoid(gates)
        return share[..., :1] * coarse + share[..., 1:] * fine


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape), torch.randn(BATCH, HEADS, LENGTH, 2)]


def get_init_inputs():
    return [BLOCK, WINDOW]
