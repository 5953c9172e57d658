"""Gated feed-forward block (SwiGLU): x + (silu(n W_gate) * (n W_up)) W_down, with n = rmsnorm(x)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 128
WIDTH = 384
HIDDEN = 1024


class Model(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm_weight = nn.Parameter(torch.rand(width) + 0.5)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = F.rms_norm(x, self.norm_weight.shape, self.norm_weight, 1e-6)
        return x + self.down(F.silu(self.gate(inner)) * self.up(inner))


def get_inputs():
    return [torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
