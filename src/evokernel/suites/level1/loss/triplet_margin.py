"""Triplet margin loss: mean over rows of max(0, |anchor - positive| - |anchor - negative| + margin), Euclidean distances."""

import torch
import torch.nn as nn

BATCH = 1024
DIM = 256
MARGIN = 1.0


class Model(nn.Module):
    def __init__(self, margin: float):
        super().__init__()
        self.loss = nn.TripletMarginLoss(margin=margin)

    def forward(self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor) -> torch.Tensor:
        return self.loss(anchor, positive, negative)


def get_inputs():
    anchor = torch.randn(BATCH, DIM)
    positive = anchor + torch.randn(BATCH, DIM) * (0.5 + 0.2 * torch.rand(1))
    return [anchor, positive, anchor + torch.randn(BATCH, DIM) * 0.5]


def get_init_inputs():
    return [MARGIN]
