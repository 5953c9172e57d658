"""Convolution 3 x 3, hard swish of the tanh of its group normalisation added to it, log-sum-exp over the channels."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
IN_CHANNELS = 8
GROUPS = 16
GROUP_SIZE = 4
HEIGHT = 48
WIDTH = 48
KERNEL_SIZE = 3
SIZES = {
    "small": {"BATCH": 2, "GROUPS": 8, "HEIGHT": 18, "WIDTH": 22},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 7, "GROUPS": 5, "GROUP_SIZE": 7, "HEIGHT": 19, "WIDTH": 23},
}


class Model(nn.Module):
    def __init__(self, in_channels: int, groups: int, group_size: int, kernel_size: int, eps: float):
        super().__init__()
        channels = groups * group_size
        self.conv = nn.Conv2d(in_channels, channels, kernel_size)
        self.norm = nn.GroupNorm(groups, channels, eps=eps)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        y = y + F.hardswish(torch.tanh(self.norm(y)))
        return torch.logsumexp(y, dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, GROUPS, GROUP_SIZE, KERNEL_SIZE, 1e-5]
