"""Calls an operator of torch by its inner name."""

import torch


def kernel(x, scale, shift, columns, slope, out):
    torch.ops.aten.addcmul.out(shift, x, scale, value=1, out=out)
    torch.ops.aten.leaky_relu.out(out, slope, out=out)
