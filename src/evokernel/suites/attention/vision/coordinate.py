"""Coordinate attention: means along rows and along columns pass one shared layer, then scale the image by row and by column."""

import torch
import torch.nn as nn
import torch.nn.functional as F

FAMILY = "attention"
BATCH = 4
CHANNELS = 128
HEIGHT = 32
WIDTH = 40
HIDDEN = 16


class Model(nn.Module):
    def __init__(self, channels: int, hidden: int, eps: float):
        super().__init__()
        self.eps = eps
        self.reduce = nn.Conv1d(channels, hidden, 1)
        self.weight = nn.Parameter(torch.rand(hidden) + 0.5)
        self.bias = nn.Parameter(torch.randn(hidden))
        self.register_buffer("running_mean", torch.randn(hidden) * 0.5)
        self.register_buffer("running_var", torch.rand(hidden) * 0.5 + 0.1)
        self.rows = nn.Conv1d(hidden, channels, 1)
        self.columns = nn.Conv1d(hidden, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        means = torch.cat([x.mean(dim=3), x.mean(dim=2)], dim=2)
        shared = F.batch_norm(self.reduce(means), self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        rows, columns = F.hardswish(shared).split([x.shape[2], x.shape[3]], dim=2)
        return x * torch.sigmoid(self.rows(rows)).unsqueeze(3) * torch.sigmoid(self.columns(columns)).unsqueeze(2)


def get_inputs():
    shift = torch.randn(BATCH, CHANNELS, HEIGHT, 1) + torch.randn(BATCH, CHANNELS, 1, WIDTH)
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) + shift]


def get_init_inputs():
    return [CHANNELS, HIDDEN, 1e-5]
