"""Rows of a learned table, gathered by index."""

import torch
import torch.nn as nn

VOCABULARY = 8192
DIM = 256
BATCH = 16
LENGTH = 256


class Model(nn.Module):
    def __init__(self, vocabulary: int, dim: int):
        super().__init__()
        self.table = nn.Embedding(vocabulary, dim)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return self.table(index)


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH))]


def get_init_inputs():
    return [VOCABULARY, DIM]
