"""BigBird pattern: a block of queries sees its neighbours, the global blocks at the start and some blocks drawn at random."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 4
BLOCKS = 16
BLOCK = 32
HEAD_DIM = 64
GLOBAL_BLOCKS = 1
RANDOM_BLOCKS = 2
LENGTH = BLOCKS * BLOCK
SIZES = {
    "small": {"BLOCKS": 8, "BLOCK": 8, "HEAD_DIM": 16},
    "held_out": {"BATCH": 1, "HEADS": 3, "BLOCKS": 11, "BLOCK": 7, "HEAD_DIM": 19, "GLOBAL_BLOCKS": 2, "RANDOM_BLOCKS": 3},
}


class Model(nn.Module):
    def __init__(self, block: int, global_blocks: int):
        super().__init__()
        self.block = block
        self.global_blocks = global_blocks

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, random_blocks: torch.Tensor) -> torch.Tensor:
        place = torch.arange(random_blocks.shape[0])
        seen = (place[:, None] - place[None, :]).abs() <= 1
        seen = seen | (place[:, None] < self.global_blocks) | (place[None, :] < self.global_blocks)
        seen = seen.scatter(1, random_blocks, True)
        seen = seen.repeat_interleave(self.block, dim=0).repeat_interleave(self.block, dim=1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        return torch.matmul(torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1), v)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_DIM)
    random_blocks = torch.randint(0, BLOCKS, (BLOCKS, RANDOM_BLOCKS))
    return [torch.randn(shape) * 2, torch.randn(shape), torch.randn(shape), random_blocks]


def get_init_inputs():
    return [BLOCK, GLOBAL_BLOCKS]
