"""Writes hundreds of megabytes to stderr."""

import os

for _ in range(300):
    os.write(2, b"x" * (1 << 20))
