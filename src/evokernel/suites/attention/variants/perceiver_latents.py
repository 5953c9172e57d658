"""Perceiver read: learned latents attend to a long input, both layer-normalised, and add the result to themselves."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 1024
CHANNELS = 96
LATENTS = 64
HEADS = 4
HEAD_DIM = 32
WIDTH = HEADS * HEAD_DIM


class Model(nn.Module):
    def __init__(self, heads: int, channels: int, latents: int, width: int):
        super().__init__()
        self.heads = heads
        self.latents = nn.Parameter(torch.randn(latents, width))
        self.input_norm = nn.LayerNorm(channels)
        self.latent_norm = nn.LayerNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(channels, 2 * width, bias=False)
        self.out = nn.Linear(width, width)
        for norm in (self.input_norm, self.latent_norm):
            nn.init.uniform_(norm.weight, 1.0, 3.0)
            nn.init.normal_(norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        k, v = self.kv(self.input_norm(x)).chunk(2, dim=-1)
        q = self.q(self.latent_norm(self.latents)).expand(x.shape[0], -1, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        found = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.latents + self.out(found)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, CHANNELS) * 2 + torch.randn(BATCH, 1, CHANNELS)]


def get_init_inputs():
    return [HEADS, CHANNELS, LATENTS, WIDTH]
