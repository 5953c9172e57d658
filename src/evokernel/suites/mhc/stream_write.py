"""Writes a layer's output back into the residual streams, weighted per token and stream, and adds it to their contents."""

import torch
import torch.nn as nn

BATCH = 4
LENGTH = 256
STREAMS = 4
WIDTH = 384


class Model(nn.Module):
    def forward(self, streams: torch.Tensor, layer_output: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return streams + weights.unsqueeze(-1) * layer_output.unsqueeze(2)


def get_inputs():
    weights = 2 * torch.sigmoid(torch.randn(BATCH, LENGTH, STREAMS))
    return [torch.randn(BATCH, LENGTH, STREAMS, WIDTH), torch.randn(BATCH, LENGTH, WIDTH), weights]


def get_init_inputs():
    return []
