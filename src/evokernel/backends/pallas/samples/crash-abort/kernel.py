"""Kills the process that traces it."""

import os


def kernel(x, weight, bias, features, classes, sharpness):
    os.abort()
