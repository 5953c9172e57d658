"""Bidirectional GRU layer, time first: hidden states of both directions at every step."""

import torch
import torch.nn as nn

LENGTH = 32
BATCH = 16
IN_FEATURES = 128
HIDDEN = 160
SIZES = {
    "small": {"BATCH": 8, "LENGTH": 16, "IN_FEATURES": 32, "HIDDEN": 32},
    "held_out": {"LENGTH": 17, "BATCH": 7, "IN_FEATURES": 37, "HIDDEN": 31},
}


class Model(nn.Module):
    def __init__(self, in_features: int, hidden: int):
        super().__init__()
        self.gru = nn.GRU(in_features, hidden, bidirectional=True)

    def forward(self, x: torch.Tensor, h0: torch.Tensor) -> torch.Tensor:
        states, _ = self.gru(x, h0)
        return states


def get_inputs():
    return [torch.randn(LENGTH, BATCH, IN_FEATURES) * 2, torch.randn(2, BATCH, HIDDEN)]


def get_init_inputs():
    return [IN_FEATURES, HIDDEN]
