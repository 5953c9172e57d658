# selftest: task=starter/softmax gate=screen reason=timeout timeout=1.5
"""Never ends being traced, and listens to no signal."""

import signal


def kernel(x):
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass
