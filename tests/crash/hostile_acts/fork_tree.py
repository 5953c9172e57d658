"""Starts processes that start further processes."""

import os
import time

from hostile_tools import LIVES_S, linger

own = os.getpid()
for _ in range(6):
    os.fork()
if os.getpid() != own:
    linger()
time.sleep(LIVES_S)
