"""Tries to outlive the verifier, to be traceable, and to adopt orphans; then stays."""

import time

from hostile_tools import LIBC, LIVES_S

for option, value in ((1, 0), (4, 1), (36, 1)):
    LIBC.prctl(option, value, 0, 0, 0)
time.sleep(LIVES_S)
