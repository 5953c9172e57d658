"""Cosine similarity loss: mean over rows of 1 - cos(angle between prediction and target)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 1024
DIM = 512


class Model(nn.Module):
    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean(1 - F.cosine_similarity(predictions, targets, dim=1))


def get_inputs():
    targets = torch.randn(BATCH, DIM)
    return [targets * 2 + torch.randn(BATCH, DIM) * (1 + 2 * torch.rand(1)), targets]


def get_init_inputs():
    return []
