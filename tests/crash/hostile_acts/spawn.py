"""Starts a program the quick way."""

import os

os.posix_spawn("/bin/sleep", ["sleep", "20"], {}, setsid=True)
