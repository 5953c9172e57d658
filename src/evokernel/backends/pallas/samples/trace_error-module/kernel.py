"""Imports a module that does not exist."""

import triton


def kernel(x, weight, bias, features, classes, sharpness):
    return triton.jit(x)
