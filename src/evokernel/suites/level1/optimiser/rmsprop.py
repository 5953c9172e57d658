"""One step of RMSprop: new parameters and new running mean of squared gradients."""

import torch
import torch.nn as nn

FAMILY = "optimiser"
ROWS = 512
COLS = 768
RATE = 0.1
SMOOTHING = 0.9
EPS = 1e-8


class Model(nn.Module):
    def __init__(self, rate: float, smoothing: float, eps: float):
        super().__init__()
        self.rate, self.smoothing, self.eps = rate, smoothing, eps

    def forward(self, weights: torch.Tensor, gradient: torch.Tensor, square: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        square = self.smoothing * square + (1 - self.smoothing) * gradient * gradient
        return weights - self.rate * gradient / (torch.sqrt(square) + self.eps), square


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS), 0.1 + torch.rand(ROWS, COLS)]


def get_init_inputs():
    return [RATE, SMOOTHING, EPS]
