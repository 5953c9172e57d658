"""One step of decoding on caches of various lengths, packed one after the other; offsets tell where each begins and ends."""

import torch
import torch.nn as nn

BATCH = 8
HEADS = 8
TOKENS = 2048
HEAD_DIM = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("bhd,jhd->bhj", q, keys) / q.shape[-1] ** 0.5
        token = torch.arange(keys.shape[0])
        others = (token < offsets[:-1, None]) | (token >= offsets[1:, None])
        weights = torch.softmax(scores.masked_fill(others[:, None, :], float("-inf")), dim=-1)
        return torch.einsum("bhj,jhd->bhd", weights, values)


def get_inputs():
    shape = (TOKENS, HEADS, HEAD_DIM)
    cuts = torch.randperm(TOKENS - 1)[: BATCH - 1].sort().values + 1
    offsets = torch.cat([torch.tensor([0]), cuts, torch.tensor([TOKENS])])
    return [torch.randn(BATCH, HEADS, HEAD_DIM) * 2, torch.randn(shape), torch.randn(shape), offsets]


def get_init_inputs():
    return []
