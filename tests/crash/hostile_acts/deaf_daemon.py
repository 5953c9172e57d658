"""Starts a daemon that ignores all signals it can and does not die with its parent."""

import os
import signal

from hostile_tools import LIBC, linger

if os.fork() == 0:
    os.setsid()
    LIBC.prctl(1, 0)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGALRM}:
        signal.signal(number, signal.SIG_IGN)
    linger()
