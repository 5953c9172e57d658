"""Imports what is not there."""

import triton


def kernel(x, weight, bias, features, classes, sharpness):
    return triton.jit(x)
