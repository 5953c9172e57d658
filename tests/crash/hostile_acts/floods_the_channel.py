"""Sends an endless reply."""

import os

for descriptor in range(3, 64):
    try:
        for _ in range(300):
            os.write(descriptor, b"x" * 65536)
    except OSError:
        continue
