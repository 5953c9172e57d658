# selftest: task=starter/softmax gate=screen reason=trace_error,crash
"""Recurses until the stack is full."""

import sys


sys.setrecursionlimit(10**9)


def kernel(x):
    return sorted([x], key=kernel)
