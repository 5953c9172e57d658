"""Swin attention in shifted windows: the image is rolled, pixels that were not neighbours do not see each other, and rolled back."""

import torch
import torch.nn as nn

BATCH = 2
WINDOWS_HIGH = 4
WINDOWS_WIDE = 5
WINDOW = 7
SHIFT = 3
HEADS = 4
HEAD_DIM = 32
WIDTH = HEADS * HEAD_DIM
SIZES = {
    "small": {"BATCH": 1, "WINDOWS_HIGH": 2, "WINDOWS_WIDE": 2, "HEAD_DIM": 16},
    "held_out": {"BATCH": 3, "WINDOWS_HIGH": 3, "WINDOWS_WIDE": 2, "WINDOW": 5, "SHIFT": 2, "HEADS": 3, "HEAD_DIM": 13},
}


def relative(window: int) -> torch.Tensor:
    place = torch.cartesian_prod(torch.arange(window), torch.arange(window))
    apart = place[:, None] - place[None, :] + window - 1
    return apart[..., 0] * (2 * window - 1) + apart[..., 1]


class Model(nn.Module):
    def __init__(self, window: int, shift: int, heads: int, width: int):
        super().__init__()
        self.window = window
        self.shift = shift
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        self.register_buffer("index", relative(window))

    def tiles(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(2, (-1, self.window)).unflatten(1, (-1, self.window)).transpose(2, 3)

    def hidden(self, height: int, width: int) -> torch.Tensor:
        row, column = ((torch.arange(n) >= n - self.window).int() + (torch.arange(n) >= n - self.shift) for n in (height, width))
        region = self.tiles((3 * row[:, None] + column)[None, ..., None]).reshape(-1, 1, self.window**2)
        return region.unsqueeze(-1) != region.unsqueeze(-2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tiles = self.tiles(torch.roll(x, (-self.shift, -self.shift), dims=(1, 2)))
        parts = self.qkv(tiles.reshape(x.shape[0], -1, self.window**2, x.shape[3])).unflatten(3, (3, self.heads, -1))
        q, k, v = parts.permute(3, 0, 1, 4, 2, 5)
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5 + self.table[self.index].permute(2, 0, 1)
        weights = torch.softmax(scores.masked_fill(self.hidden(*x.shape[1:3]), float("-inf")), dim=-1)
        mixed = torch.matmul(weights, v).transpose(2, 3).reshape(tiles.shape).transpose(2, 3).reshape(x.shape)
        return self.out(torch.roll(mixed, (self.shift, self.shift), dims=(1, 2)))


def get_inputs():
    return [torch.randn(BATCH, WINDOWS_HIGH * WINDOW, WINDOWS_WIDE * WINDOW, WIDTH) * 2]


def get_init_inputs():
    return [WINDOW, SHIFT, HEADS, WIDTH]
