"""Reads one layer input from the residual streams: their sum, weighted per token."""

import torch
import torch.nn as nn

BATCH = 4
LENGTH = 256
STREAMS = 4
WIDTH = 512


class Model(nn.Module):
    def forward(self, streams: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (streams * weights.unsqueeze(-1)).sum(dim=2)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, STREAMS, WIDTH), torch.sigmoid(torch.randn(BATCH, LENGTH, STREAMS))]


def get_init_inputs():
    return []
