import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Bias, SwiGLU over two halves, then RMSNorm with a weight."""

    def __init__(self, hidden: int):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(2 * hidden) * 0.1)
        self.weight = nn.Parameter(torch.rand(hidden) + 0.5)

    def forward(self, x):
        gate, up = (x + self.bias).chunk(2, dim=-1)
        y = F.silu(gate) * up
        return y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def get_inputs():
    return [torch.randn(1024, 2048)]


def get_init_inputs():
    return [1024]
