"""A stopped process handles nothing."""

import os
import signal

os.kill(os.getpid(), signal.SIGSTOP)
