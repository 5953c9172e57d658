"""A file that says it is a terabyte."""

import os

with open("sparse", "wb") as file:
    os.ftruncate(file.fileno(), 1 << 40)
