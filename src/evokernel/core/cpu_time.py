"""Time limits that count the CPU time of a process, so that other work on the machine does not use them up."""

from __future__ import annotations

import sys
import time

MAX_SLOWDOWN = 4.0
"""A process that gets or uses little CPU time is charged at least the wall time divided by this, so that one that hangs ends, too."""


def find_cpu_clock(pid: int) -> int | None:
    """Return the id of the CPU clock of a process (Linux: ~pid in the upper bits, 2 for scheduled time), or None if there is none."""
    if sys.platform != "linux":
        return None
    clock = (~pid << 3) | 2
    return clock if read_clock(clock) is not None else None


def read_clock(clock: int | None) -> float | None:
    """Return the CPU time charged to a process so far, or None if the system does not report it."""
    try:
        return None if clock is None else time.clock_gettime(clock)
    except OSError:
        return None


def charge_time(wall_s: float, cpu_s: float | None) -> float:
    """Return how much of a time limit a process has used: its CPU time where that is less than the wall time."""
    return wall_s if cpu_s is None else min(wall_s, max(cpu_s, wall_s / MAX_SLOWDOWN))
