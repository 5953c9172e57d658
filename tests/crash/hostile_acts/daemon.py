"""Starts a grandchild in a new session, outside every process group."""

import os

from hostile_tools import linger

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        linger()
    os._exit(0)
os.wait()
