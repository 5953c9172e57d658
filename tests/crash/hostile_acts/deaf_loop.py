"""Ignores every signal that can be ignored, and loops."""

import signal

from hostile_tools import spin

for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
spin()
