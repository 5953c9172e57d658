"""Swin attention inside windows of an image, with a learned bias for each relative position and head."""

import torch
import torch.nn as nn

BATCH = 2
WINDOWS_HIGH = 4
WINDOWS_WIDE = 5
WINDOW = 7
HEADS = 4
HEAD_DIM = 32
WIDTH = HEADS * HEAD_DIM
SIZES = {
    "small": {"BATCH": 1, "WINDOWS_HIGH": 2, "WINDOWS_WIDE": 2, "HEAD_DIM": 16},
    "held_out": {"BATCH": 3, "WINDOWS_HIGH": 3, "WINDOWS_WIDE": 2, "WINDOW": 5, "HEADS": 3, "HEAD_DIM": 13},
}


def relative(window: int) -> torch.Tensor:
    place = torch.cartesian_prod(torch.arange(window), torch.arange(window))
    apart = place[:, None] - place[None, :] + window - 1
    return apart[..., 0] * (2 * window - 1) + apart[..., 1]


class Model(nn.Module):
    def __init__(self, window: int, heads: int, width: int):
        super().__init__()
        self.window = window
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        self.register_buffer("index", relative(window))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, channels = x.shape
        size = self.window
        tiles = x.view(batch, height // size, size, width // size, size, channels).transpose(2, 3)
        parts = self.qkv(tiles.reshape(-1, size * size, channels)).unflatten(2, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5 + self.table[self.index].permute(2, 0, 1)
        mixed = torch.matmul(torch.softmax(scores, dim=-1), v).transpose(1, 2).reshape(tiles.shape)
        return self.out(mixed.transpose(2, 3).reshape(x.shape))


def get_inputs():
    return [torch.randn(BATCH, WINDOWS_HIGH * WINDOW, WINDOWS_WIDE * WINDOW, WIDTH) * 2]


def get_init_inputs():
    return [WINDOW, HEADS, WIDTH]
