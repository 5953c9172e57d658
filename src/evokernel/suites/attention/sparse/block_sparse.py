"""Block-sparse attention: a mask per head says which blocks of keys each block of queries sees besides its own."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 4
BLOCKS = 16
BLOCK = 32
HEAD_DIM = 64
LENGTH = BLOCKS * BLOCK
SIZES = {
    "small": {"BLOCKS": 4, "BLOCK": 16, "HEAD_DIM": 16},
    "held_out": {"BATCH": 1, "HEADS": 3, "BLOCKS": 7, "BLOCK": 11, "HEAD_DIM": 19},
}


class Model(nn.Module):
    def __init__(self, block: int):
        super().__init__()
        self.block = block

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, block_mask: torch.Tensor) -> torch.Tensor:
        seen = block_mask | torch.eye(block_mask.shape[-1], dtype=torch.bool)
        seen = seen.repeat_interleave(self.block, dim=-2).repeat_interleave(self.block, dim=-1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        return torch.matmul(torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1), v)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    block_mask = torch.rand(HEADS, BLOCKS, BLOCKS) < 0.25
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape), block_mask]


def get_init_inputs():
    return [BLOCK]
