"""Kills its process group, as if it were killed from outside."""

import os
import signal

os.killpg(0, signal.SIGKILL)
