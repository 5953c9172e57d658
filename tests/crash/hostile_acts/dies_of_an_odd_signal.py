"""Dies of a signal that has no name."""

import os

os.kill(os.getpid(), 40)
