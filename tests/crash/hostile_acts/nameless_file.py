"""Writes to a file without a name."""

import os

descriptor = os.open(".", os.O_TMPFILE | os.O_RDWR)
for _ in range(300):
    os.write(descriptor, b"x" * (1 << 20))
