"""RMS normalisation of bfloat16 rows, computed in float32."""

import torch
from torch import nn

ROWS = 256
COLUMNS = 320


class Model(nn.Module):
    def __init__(self, columns: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + 1e-6)
        return (wide * scale * self.weight.float()).to(torch.bfloat16)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS).to(torch.bfloat16)]


def get_init_inputs():
    return [COLUMNS]
