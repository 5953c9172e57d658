"""Elements under a mask, which all heads of one batch entry share, become one given value."""

import torch
import torch.nn as nn

BATCH = 4
HEADS = 8
QUERIES = 128
KEYS = 192
VALUE = -8.0


class Model(nn.Module):
    def __init__(self, value: float):
        super().__init__()
        self.value = value

    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(mask, self.value)


def get_inputs():
    return [torch.randn(BATCH, HEADS, QUERIES, KEYS), torch.rand(BATCH, 1, QUERIES, KEYS) < 0.3]


def get_init_inputs():
    return [VALUE]
