"""One step of multi-head latent attention (MLA) on the compressed cache: both unfolding projections are absorbed by queries and outputs."""

import torch
import torch.nn as nn

BATCH = 4
HEADS = 12
LENGTH = 512
PLAIN_DIM = 64
ROTARY_DIM = 32
VALUE_DIM = 64
LATENT = 256


class Model(nn.Module):
    def __init__(self, heads: int, plain_dim: int, value_dim: int, latent: int):
        super().__init__()
        self.key_up = nn.Parameter(torch.randn(heads, plain_dim, latent) / plain_dim**0.5)
        self.value_up = nn.Parameter(torch.randn(heads, latent, value_dim) / latent**0.5)

    def forward(self, plain: torch.Tensor, rotary: torch.Tensor, latents: torch.Tensor, rotary_keys: torch.Tensor) -> torch.Tensor:
        absorbed = torch.einsum("bhd,hdl->bhl", plain, self.key_up)
        scores = absorbed @ latents.transpose(1, 2) + rotary @ rotary_keys.transpose(1, 2)
        weights = torch.softmax(scores / (plain.shape[-1] + rotary.shape[-1]) ** 0.5, dim=-1)
        return torch.einsum("bhl,hld->bhd", weights @ latents, self.value_up)


def get_inputs():
    plain, rotary = torch.randn(BATCH, HEADS, PLAIN_DIM), torch.randn(BATCH, HEADS, ROTARY_DIM) * 2
    return [plain, rotary, torch.randn(BATCH, LENGTH, LATENT), torch.randn(BATCH, LENGTH, ROTARY_DIM)]


def get_init_inputs():
    return [HEADS, PLAIN_DIM, VALUE_DIM, LATENT]
