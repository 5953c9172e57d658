# selftest: task=starter/softmax gate=screen reason=exit
"""Exits its process at import with exit code 0."""

import os


def kernel(x):
    os._exit(0)
