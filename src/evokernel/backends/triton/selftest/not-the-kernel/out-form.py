# selftest: task=starter/matmul gate=screen,build reason=forbidden
"""Torch multiplies right into the output."""

import torch


def kernel(a, b, out):
    torch.mm(a, b, out=out)
