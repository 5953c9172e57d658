"""Time limits that count the CPU time of a process, so that other work on the machine does not use them up."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MAX_SLOWDOWN = 4.0
"""A process that uses little CPU time is charged at least the wall time divided by this, so that one that hangs ends, too. The time in
which it waits for a core does not count."""
MAX_QUEUE_SLOWDOWN = 6.0
"""However long it waits for a core, it is charged at least the wall time divided by this, so that it ends before its worker is given up."""
MAX_THREADS = 256
"""Of a process with more threads, only so many are read."""


class ClockReading(NamedTuple):
    """What a process has used at one moment."""

    queued_s: float
    """How long it waited for a core: of its threads, the one that waited longest; 0 if the system does not report it."""
    cpu_s: float | None
    """None if the system does not report it."""
    wall_s: float


class ProcessClock:
    """Charges a process for the CPU time that it uses. Where times are measured, `reads_queue` is False: reading the queue takes 0.1 ms."""

    def __init__(self, pid: int, reads_queue: bool = True) -> None:
        self.pid, self.clock, self.reads_queue = pid, find_cpu_clock(pid), reads_queue

    def read(self) -> ClockReading:
        """Return what the process has used so far."""
        return ClockReading(read_queued_s(self.pid) if self.reads_queue else 0.0, read_clock(self.clock), time.monotonic())

    def charge_since(self, start: ClockReading) -> float:
        """Return how much of a time limit the process has used since a reading."""
        now = self.read()
        cpu_s = None if now.cpu_s is None or start.cpu_s is None else now.cpu_s - start.cpu_s
        return charge_time(now.wall_s - start.wall_s, cpu_s, max(0.0, now.queued_s - start.queued_s))


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


def read_queued_s(pid: int) -> float:
    """Return how long the thread of a process that waited longest waited for a core, or 0 if the system does not report it."""
    longest_ns = 0
    try:
        threads = os.listdir(f"/proc/{pid}/task")[:MAX_THREADS]
    except OSError:
        return 0.0
    for thread in threads:
        with suppress(OSError, ValueError, IndexError):  # the thread has ended, or the kernel does not account for it
            longest_ns = max(longest_ns, int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[1]))
    return longest_ns * 1e-9


def charge_time(wall_s: float, cpu_s: float | None, queued_s: float = 0.0) -> float:
    """Return how much of a time limit a process has used: its CPU time where that is less than the wall time."""
    if cpu_s is None:
        return wall_s
    idle_share_s = max((wall_s - queued_s) / MAX_SLOWDOWN, wall_s / MAX_QUEUE_SLOWDOWN)
    return min(wall_s, max(cpu_s, idle_share_s))
