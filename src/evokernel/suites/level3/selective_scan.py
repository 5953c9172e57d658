"""Selective state-space scan: h_t = exp(d_t A) h_(t-1) + d_t x_t B_t, y_t = C_t h_t + D x_t, with step d_t = softplus(delta_t + bias)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 128
CHANNELS = 192
STATES = 16
FAMILY = "scan"


class Model(nn.Module):
    def __init__(self, channels: int, states: int):
        super().__init__()
        self.log_decay = nn.Parameter(torch.randn(channels, states))
        self.skip = nn.Parameter(torch.randn(channels))
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor, delta: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        step = F.softplus(delta + self.bias)
        decay = torch.exp(step.unsqueeze(-1) * -torch.exp(self.log_decay))
        drive = (step * x).unsqueeze(-1) * b.unsqueeze(2)
        state = torch.zeros_like(drive[:, 0])
        outputs = []
        for t in range(x.shape[1]):
            state = decay[:, t] * state + drive[:, t]
            outputs.append((state * c[:, t, None, :]).sum(dim=-1))
        return torch.stack(outputs, dim=1) + self.skip * x


def get_inputs():
    x, delta = (torch.randn(BATCH, LENGTH, CHANNELS) for _ in range(2))
    b, c = (torch.randn(BATCH, LENGTH, STATES) for _ in range(2))
    return [x, delta, b, c]


def get_init_inputs():
    return [CHANNELS, STATES]
