"""Right, but PyTorch does the work."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.add(torch.mul(x, 2), 1)
