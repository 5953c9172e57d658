# selftest: task=starter/softmax gate=screen reason=memory
"""Allocates a hundred gigabytes."""

import numpy as np


def kernel(x):
    return np.ones(100 << 30, np.uint8)
