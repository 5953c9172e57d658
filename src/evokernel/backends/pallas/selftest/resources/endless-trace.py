# selftest: task=starter/softmax gate=screen reason=timeout timeout=1.5
"""Its tracing never ends, and it ignores signals."""

import signal


def kernel(x):
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass
