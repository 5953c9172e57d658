"""Exhausts the stack."""

import sys

sys.setrecursionlimit(1 << 30)


def deeper():
    return [deeper() for _ in range(1)]


deeper()
