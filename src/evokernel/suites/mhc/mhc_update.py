"""Residual update of hyper-connections: streams mixed by one matrix per token, plus the layer's output times its write weights."""

import torch
import torch.nn as nn

BATCH = 4
LENGTH = 256
STREAMS = 4
WIDTH = 320


class Model(nn.Module):
    def forward(self, streams: torch.Tensor, layer_output: torch.Tensor, mixing: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return torch.matmul(mixing, streams) + weights.unsqueeze(-1) * layer_output.unsqueeze(2)


def get_inputs():
    mixing = torch.exp(torch.randn(BATCH, LENGTH, STREAMS, STREAMS))
    for _ in range(20):
        mixing = mixing / mixing.sum(dim=-2, keepdim=True)
        mixing = mixing / mixing.sum(dim=-1, keepdim=True)
    weights = 2 * torch.sigmoid(torch.randn(BATCH, LENGTH, STREAMS))
    return [torch.randn(BATCH, LENGTH, STREAMS, WIDTH), torch.randn(BATCH, LENGTH, WIDTH), mixing, weights]


def get_init_inputs():
    return []
