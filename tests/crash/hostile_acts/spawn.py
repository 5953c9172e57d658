"""Starts a program with posix_spawn."""

import os

os.posix_spawn("/bin/sleep", ["sleep", "20"], {}, setsid=True)
