"""One step of AdamW with bias correction: new parameters, first moment and second moment."""

import torch
import torch.nn as nn

FAMILY = "optimiser"
ROWS = 512
COLS = 512
STEP = 10
RATE = 0.1
BETA1 = 0.9
BETA2 = 0.95
DECAY = 0.1
EPS = 1e-8


class Model(nn.Module):
    def __init__(self, step: int, rate: float, beta1: float, beta2: float, decay: float, eps: float):
        super().__init__()
        self.rate, self.decay, self.eps = rate, decay, eps
        self.beta1, self.beta2 = beta1, beta2
        self.correction1, self.correction2 = 1 - beta1**step, 1 - beta2**step

    def forward(
        self, weights: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        first = self.beta1 * first + (1 - self.beta1) * gradient
        second = self.beta2 * second + (1 - self.beta2) * gradient * gradient
        update = first / self.correction1 / (torch.sqrt(second / self.correction2) + self.eps)
        return weights * (1 - self.rate * self.decay) - self.rate * update, first, second


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS), torch.randn(ROWS, COLS) * 0.5, 0.1 + torch.rand(ROWS, COLS)]


def get_init_inputs():
    return [STEP, RATE, BETA1, BETA2, DECAY, EPS]
