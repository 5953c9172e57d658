"""Has torch write the kernel."""

import torch


@torch.compile
def gated(x, scale, shift, slope, out):
    y = x * scale + shift
    out.copy_(torch.where(y > 0, y, slope * y))


def kernel(x, scale, shift, columns, slope, out):
    gated(x, scale, shift, slope, out)
