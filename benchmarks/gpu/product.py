"""A square product in bfloat16."""

import torch

N = 4096


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(N, N).bfloat16(), torch.randn(N, N).bfloat16()]
