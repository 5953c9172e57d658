"""Blocks every signal, and loops."""

import signal

from hostile_tools import spin

signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
spin()
