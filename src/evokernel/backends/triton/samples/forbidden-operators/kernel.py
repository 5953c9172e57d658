"""Torch's operators do the work."""

import torch


def kernel(x, scale, shift, columns, slope, out):
    y = x * scale + shift
    out.copy_(torch.where(y > 0, y, slope * y))
