import torch
import torch.nn as nn


class Model(nn.Module):
    """Rows standardised over the elements a mask keeps, the rest set to zero, clipped."""

    def forward(self, x, mask):
        count = mask.sum(dim=(1, 2), keepdim=True).clamp(min=1.0)
        mean = (x * mask).sum(dim=(1, 2), keepdim=True) / count
        centred = torch.where(mask > 0, x - mean, torch.zeros_like(x))
        variance = centred.square().sum(dim=(1, 2), keepdim=True) / count
        return torch.clamp(centred / torch.sqrt(variance + 1e-5), -3.0, 3.0)


def get_inputs():
    return [torch.randn(64, 64, 128), (torch.rand(64, 64, 128) > 0.2).float()]


def get_init_inputs():
    return []
