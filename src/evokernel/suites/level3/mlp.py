"""Multilayer perceptron: two hidden linear layers with ReLU, then a linear layer."""

import torch
import torch.nn as nn

BATCH = 64
IN_FEATURES = 784
HIDDEN1 = 512
HIDDEN2 = 768
OUT_FEATURES = 200


class Model(nn.Module):
    def __init__(self, in_features: int, hidden1: int, hidden2: int, out_features: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(in_features, hidden1),
            nn.ReLU(),
            nn.Linear(hidden1, hidden2),
            nn.ReLU(),
            nn.Linear(hidden2, out_features),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES) * 4]


def get_init_inputs():
    return [IN_FEATURES, HIDDEN1, HIDDEN2, OUT_FEATURES]
