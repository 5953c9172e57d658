"""Two stacked LSTM layers from a given state: all hidden states of the upper layer, and the last cell states."""

import torch
import torch.nn as nn

BATCH = 8
LENGTH = 32
IN_FEATURES = 96
HIDDEN = 160
LAYERS = 2
SIZES = {
    "small": {"LENGTH": 16, "IN_FEATURES": 24, "HIDDEN": 32},
    "held_out": {"BATCH": 7, "LENGTH": 13, "IN_FEATURES": 29, "HIDDEN": 31},
}


class Model(nn.Module):
    def __init__(self, in_features: int, hidden: int, layers: int):
        super().__init__()
        self.lstm = nn.LSTM(in_features, hidden, layers, batch_first=True)
        for parameter in self.lstm.parameters():
            nn.init.uniform_(parameter, -0.2, 0.2)

    def forward(self, x: torch.Tensor, h0: torch.Tensor, c0: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states, (_, cells) = self.lstm(x, (h0, c0))
        return states, cells


def get_inputs():
    return [torch.randn(BATCH, LENGTH, IN_FEATURES) * 2, torch.randn(LAYERS, BATCH, HIDDEN), torch.randn(LAYERS, BATCH, HIDDEN)]


def get_init_inputs():
    return [IN_FEATURES, HIDDEN, LAYERS]
