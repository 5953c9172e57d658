"""A grandchild in a session of its own, which no process group holds."""

import os

from hostile_tools import linger

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        linger()
    os._exit(0)
os.wait()
