"""One step of decoding on a cache of 8-bit integers, with a separate scale per token and head for keys and values."""

import torch
import torch.nn as nn

BATCH = 4
HEADS = 8
LENGTH = 768
HEAD_DIM = 64


class Model(nn.Module):
    def forward(
        self, q: torch.Tensor, keys: torch.Tensor, key_scale: torch.Tensor, values: torch.Tensor, value_scale: torch.Tensor
    ) -> torch.Tensor:
        k = keys.float() * key_scale[..., None]
        v = values.float() * value_scale[..., None]
        scores = torch.einsum("bhd,bhjd->bhj", q, k) / q.shape[-1] ** 0.5
        return torch.einsum("bhj,bhjd->bhd", torch.softmax(scores, dim=-1), v)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH)
    keys = torch.randint(-127, 128, (*shape, HEAD_DIM), dtype=torch.int8)
    values = torch.randint(-127, 128, (*shape, HEAD_DIM), dtype=torch.int8)
    q = torch.randn(BATCH, HEADS, HEAD_DIM) * 2
    return [q, keys, torch.rand(shape) * 0.03 + 0.005, values, torch.rand(shape) * 0.03 + 0.005]


def get_init_inputs():
    return []
