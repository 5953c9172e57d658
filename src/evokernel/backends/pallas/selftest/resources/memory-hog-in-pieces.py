# selftest: task=starter/softmax gate=screen reason=memory,crash,killed
"""Allocates memory until none is left."""

import numpy as np


def kernel(x):
    kept = []
    while True:
        kept.append(np.empty(1 << 30, np.uint8))
