"""Hinge loss: mean of max(0, 1 - prediction * target), one target of -1 or 1 per row."""

import torch
import torch.nn as nn

BATCH = 1024
DIM = 1024


class Model(nn.Module):
    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean(torch.clamp(1 - predictions * targets[:, None], min=0))


def get_inputs():
    targets = torch.randint(0, 2, (BATCH,)).float() * 2 - 1
    return [torch.randn(BATCH, DIM) + targets[:, None] * (0.5 + torch.rand(1)), targets]


def get_init_inputs():
    return []
