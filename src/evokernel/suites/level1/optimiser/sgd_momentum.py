"""One step of gradient descent with momentum and weight decay: new parameters and new velocity."""

import torch
import torch.nn as nn

FAMILY = "optimiser"
ROWS = 512
COLS = 768
RATE = 0.1
MOMENTUM = 0.9
DECAY = 0.05


class Model(nn.Module):
    def __init__(self, rate: float, momentum: float, decay: float):
        super().__init__()
        self.rate, self.momentum, self.decay = rate, momentum, decay

    def forward(self, weights: torch.Tensor, gradient: torch.Tensor, velocity: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        velocity = self.momentum * velocity + gradient + self.decay * weights
        return weights - self.rate * velocity, velocity


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [RATE, MOMENTUM, DECAY]
