"""Mamba block: input and gate projections, causal depthwise convolution with SiLU, a selective scan, gating, output projection."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 64
WIDTH = 96
INNER = 192
STATES = 8
RANK = 6
KERNEL_SIZE = 4


class Model(nn.Module):
    def __init__(self, width: int, inner: int, states: int, rank: int, kernel_size: int):
        super().__init__()
        self.split = [rank, states, states]
        self.enter = nn.Linear(width, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, kernel_size, padding=kernel_size - 1, groups=inner)
        self.select = nn.Linear(inner, sum(self.split), bias=False)
        self.step = nn.Linear(rank, inner)
        self.log_decay = nn.Parameter(torch.randn(inner, states))
        self.skip = nn.Parameter(torch.randn(inner))
        self.leave = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        inner, gate = self.enter(x).chunk(2, dim=-1)
        inner = F.silu(self.conv(inner.transpose(1, 2))[..., :length].transpose(1, 2))
        raw, b, c = self.select(inner).split(self.split, dim=-1)
        step = F.softplus(self.step(raw))
        decay = torch.exp(step.unsqueeze(-1) * -torch.exp(self.log_decay))
        drive = (step * inner).unsqueeze(-1) * b.unsqueeze(2)
        state = torch.zeros_like(drive[:, 0])
        outputs = []
        for t in range(length):
            state = decay[:, t] * state + drive[:, t]
            outputs.append((state * c[:, t, None, :]).sum(dim=-1))
        y = torch.stack(outputs, dim=1) + self.skip * inner
        return self.leave(y * F.silu(gate))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH) * 4]


def get_init_inputs():
    return [WIDTH, INNER, STATES, RANK, KERNEL_SIZE]
