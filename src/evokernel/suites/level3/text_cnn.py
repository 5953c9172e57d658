"""Text classifier: embedded words, convolutions over three, four and five of them with ReLU, the maximum over time, a linear layer."""

import torch
import torch.nn as nn

BATCH = 16
LENGTH = 64
VOCABULARY = 4000
DIM = 96
FILTERS = 64
CLASSES = 20


class Model(nn.Module):
    def __init__(self, vocabulary: int, dim: int, filters: int, classes: int):
        super().__init__()
        self.table = nn.Embedding(vocabulary, dim)
        self.convs = nn.ModuleList([nn.Conv1d(dim, filters, size) for size in (3, 4, 5)])
        self.classify = nn.Linear(3 * filters, classes)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        embedded = self.table(words).transpose(1, 2)
        peaks = [torch.relu(conv(embedded)).amax(dim=2) for conv in self.convs]
        return self.classify(torch.cat(peaks, dim=1))


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH))]


def get_init_inputs():
    return [VOCABULARY, DIM, FILTERS, CLASSES]
