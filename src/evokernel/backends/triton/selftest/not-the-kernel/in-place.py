# selftest: task=starter/scale_shift gate=screen,build reason=forbidden
"""Methods that work in place on the output."""

import torch


def kernel(x, scale, shift, out):
    out.copy_(x).mul_(scale).add_(shift)
