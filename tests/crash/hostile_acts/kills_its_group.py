"""Dies as if someone else had killed it."""

import os
import signal

os.killpg(0, signal.SIGKILL)
