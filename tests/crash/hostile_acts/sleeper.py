"""Waits."""

import time

from hostile_tools import LIVES_S

time.sleep(LIVES_S)
