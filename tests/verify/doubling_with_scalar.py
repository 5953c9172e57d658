import torch
from torch import nn

N = 4096


class Model(nn.Module):
    """The number is the kernel's alone."""

    def __init__(self, fault: int):
        super().__init__()
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return [0]
