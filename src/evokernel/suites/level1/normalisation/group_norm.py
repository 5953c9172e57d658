"""Group normalisation: the channels of each sample in groups, each by its own mean and variance, then weight and bias."""

import torch
import torch.nn as nn

BATCH = 8
GROUPS = 8
GROUP_CHANNELS = 8
HEIGHT = 40
WIDTH = 48
SIZES = {
    "small": {"BATCH": 2, "HEIGHT": 12, "WIDTH": 16},
    "held_out": {"BATCH": 3, "GROUPS": 5, "GROUP_CHANNELS": 7, "HEIGHT": 13, "WIDTH": 19},
}


class Model(nn.Module):
    def __init__(self, groups: int, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    scale = 0.5 + 2 * torch.rand(BATCH, GROUPS * GROUP_CHANNELS, 1, 1)
    return [torch.randn(BATCH, GROUPS * GROUP_CHANNELS, HEIGHT, WIDTH) * scale + 0.5]


def get_init_inputs():
    return [GROUPS, GROUPS * GROUP_CHANNELS]
