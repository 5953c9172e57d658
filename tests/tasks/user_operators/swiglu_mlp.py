import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """The feed-forward block of a transformer: two projections, SwiGLU, a third projection."""

    def __init__(self, hidden: int, inner: int):
        super().__init__()
        self.gate = nn.Linear(hidden, inner, bias=False)
        self.up = nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(2, 128, 256)]


def get_init_inputs():
    return [256, 512]
