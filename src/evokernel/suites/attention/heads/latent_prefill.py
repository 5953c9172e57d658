"""Multi-head latent attention (MLA) over a prompt: keys and values unfold from a small normalised latent; one rotary key for all heads."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 192
WIDTH = 320
HEADS = 4
PLAIN_DIM = 48
ROTARY_PAIRS = 12
VALUE_DIM = 48
QUERY_LATENT = 128
LATENT = 96


def rotated(x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)


def rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-6) * weight


class Model(nn.Module):
    def __init__(self, width: int, heads: int, plain: int, pairs: int, value: int, query_latent: int, latent: int):
        super().__init__()
        self.heads, self.plain, self.pairs, self.latent = heads, plain, pairs, latent
        self.query_down = nn.Linear(width, query_latent, bias=False)
        self.query_norm = nn.Parameter(torch.empty(query_latent).uniform_(2.0, 4.0))
        self.query_up = nn.Linear(query_latent, heads * (plain + 2 * pairs), bias=False)
        self.down = nn.Linear(width, latent + 2 * pairs, bias=False)
        self.norm = nn.Parameter(torch.empty(latent).uniform_(2.0, 4.0))
        self.up = nn.Linear(latent, heads * (plain + value), bias=False)
        self.to_out = nn.Linear(heads * value, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frequency = 10000.0 ** (-torch.arange(self.pairs) / self.pairs)
        angle = torch.arange(x.shape[1])[:, None] * frequency
        q = self.query_up(rms(self.query_down(x), self.query_norm)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q = torch.cat([q[..., : self.plain], rotated(q[..., self.plain :], angle)], dim=-1)
        latent, rotary = self.down(x).split([self.latent, 2 * self.pairs], dim=-1)
        unfolded = self.up(rms(latent, self.norm)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = unfolded[..., : self.plain], unfolded[..., self.plain :]
        shared = rotated(rotary, angle)[:, None].expand(-1, self.heads, -1, -1)
        out = F.scaled_dot_product_attention(q, torch.cat([k, shared], dim=-1), v, is_causal=True)
        return self.to_out(out.transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH) * 2]


def get_init_inputs():
    return [WIDTH, HEADS, PLAIN_DIM, ROTARY_PAIRS, VALUE_DIM, QUERY_LATENT, LATENT]
