"""Creates a sparse file of one terabyte."""

import os

with open("sparse", "wb") as file:
    os.ftruncate(file.fileno(), 1 << 40)
