"""Axial attention on an image: softmax attention along every row plus the same along every column, each with its own projection."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEIGHT = 32
WIDTH = 40
HEADS = 4
HEAD_DIM = 32
CHANNELS = HEADS * HEAD_DIM
SIZES = {"small": {"HEIGHT": 12, "WIDTH": 14, "HEAD_DIM": 8}, "held_out": {"HEIGHT": 13, "WIDTH": 17, "HEADS": 3, "HEAD_DIM": 11}}


class Model(nn.Module):
    def __init__(self, heads: int, channels: int):
        super().__init__()
        self.heads = heads
        self.along_rows = nn.Linear(channels, 3 * channels, bias=False)
        self.along_columns = nn.Linear(channels, 3 * channels, bias=False)

    def attend(self, qkv: torch.Tensor) -> torch.Tensor:
        q, k, v = qkv.unflatten(3, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        return F.scaled_dot_product_attention(q, k, v).transpose(2, 3).flatten(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.attend(self.along_rows(x))
        columns = self.attend(self.along_columns(x.transpose(1, 2)))
        return rows + columns.transpose(1, 2)


def get_inputs():
    return [torch.randn(BATCH, HEIGHT, WIDTH, CHANNELS) * 3]


def get_init_inputs():
    return [HEADS, CHANNELS]
