"""Squeeze and excitation: channel means through two layers (ReLU, then sigmoid) scale the channels."""

import torch
import torch.nn as nn
import torch.nn.functional as F

FAMILY = "attention"
BATCH = 6
CHANNELS = 128
HEIGHT = 28
WIDTH = 28
HIDDEN = 16


class Model(nn.Module):
    def __init__(self, channels: int, hidden: int):
        super().__init__()
        self.squeeze = nn.Linear(channels, hidden)
        self.excite = nn.Linear(hidden, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.sigmoid(self.excite(F.relu(self.squeeze(x.mean(dim=(2, 3))))))
        return x * scale[:, :, None, None]


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) + torch.randn(BATCH, CHANNELS, 1, 1) * 2]


def get_init_inputs():
    return [CHANNELS, HIDDEN]
