"""RWKV's mix: mean of v with weights exp(k_i - (t - 1 - i) w) for i < t and exp(u + k_t) for t, times sigmoid(r), per channel."""

import torch
import torch.nn as nn

FAMILY = "attention"
BATCH = 4
LENGTH = 64
CHANNELS = 1024
SIZES = {"small": {"LENGTH": 24, "CHANNELS": 128}, "held_out": {"BATCH": 3, "LENGTH": 29, "CHANNELS": 131}}


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.log_decay = nn.Parameter(torch.randn(channels))
        self.bonus = nn.Parameter(torch.randn(channels))

    def forward(self, r: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        decay = torch.exp(self.log_decay)
        above, below = torch.zeros_like(k[:, 0]), torch.zeros_like(k[:, 0])
        top = torch.full_like(above, -1e38)  # both sums are kept divided by exp(top)
        outputs = []
        for key, value in zip(k.unbind(1), v.unbind(1)):
            peak = torch.maximum(top, self.bonus + key)
            old, new = torch.exp(top - peak), torch.exp(self.bonus + key - peak)
            outputs.append((old * above + new * value) / (old * below + new))
            peak = torch.maximum(top - decay, key)
            old, new = torch.exp(top - decay - peak), torch.exp(key - peak)
            above, below, top = old * above + new * value, old * below + new, peak
        return torch.sigmoid(r) * torch.stack(outputs, dim=1)


def get_inputs():
    shape = (BATCH, LENGTH, CHANNELS)
    return [torch.randn(shape), torch.randn(shape) * 2, torch.randn(shape)]


def get_init_inputs():
    return [CHANNELS]
