"""Weighted sum of rows looked up in a learned table, one bag of indices per output row."""

import torch
import torch.nn as nn

VOCABULARY = 8192
DIM = 128
BAGS = 1024
BAG_SIZE = 12


class Model(nn.Module):
    def __init__(self, vocabulary: int, dim: int):
        super().__init__()
        self.table = nn.EmbeddingBag(vocabulary, dim, mode="sum")

    def forward(self, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return self.table(index, per_sample_weights=weights)


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BAGS, BAG_SIZE)), torch.randn(BAGS, BAG_SIZE)]


def get_init_inputs():
    return [VOCABULARY, DIM]
