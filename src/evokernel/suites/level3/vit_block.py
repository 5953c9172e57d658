"""Vision transformer on patches: an image cut and embedded, positions added, then one pre-norm block of attention and GELU MLP."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 3
PATCH = 8
ROWS = 12
COLS = 12
HEADS = 4
HEAD_DIM = 32
HIDDEN = 384
FAMILY = "fuse"
SIZES = {
    "small": {"PATCH": 4, "ROWS": 4, "COLS": 5, "HEADS": 2, "HEAD_DIM": 16, "HIDDEN": 96},
    "held_out": {"BATCH": 3, "PATCH": 5, "ROWS": 5, "COLS": 7, "HEADS": 3, "HEAD_DIM": 11, "HIDDEN": 97},
}


def layer_norm(width: int) -> nn.LayerNorm:
    norm = nn.LayerNorm(width)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    return norm


class Model(nn.Module):
    def __init__(self, in_channels: int, patch: int, patches: int, heads: int, head_dim: int, hidden: int):
        super().__init__()
        self.heads = heads
        width = heads * head_dim
        self.embed = nn.Conv2d(in_channels, width, patch, stride=patch)
        self.positions = nn.Parameter(torch.randn(patches, width))
        self.norm1 = layer_norm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.project = nn.Linear(width, width)
        self.norm2 = layer_norm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.embed(image).flatten(2).transpose(1, 2) + self.positions
        qkv = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.project(attended)
        return x + self.mlp(self.norm2(x))


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, ROWS * PATCH, COLS * PATCH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, PATCH, ROWS * COLS, HEADS, HEAD_DIM, HIDDEN]
