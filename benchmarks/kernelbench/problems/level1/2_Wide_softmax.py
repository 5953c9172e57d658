"""A softmax over rows so wide that every value is below 1e-4: a loose tolerance accepts zeros."""

import torch
import torch.nn as nn

ROWS, COLS = 128, 65536


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand(ROWS, COLS)]


def get_init_inputs():
    return []
