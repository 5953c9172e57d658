"""Processes that outlive this one: check whether a process id still belongs to the process we started, and terminate it reliably."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

PROC = Path("/proc")
TERM_TIMEOUT_S = 5.0
POLL_S = 0.05


def read_start_time(pid: int) -> str:
    """The start time of a process, as the operating system prints it; empty if it does not exist or is a zombie.

    Process ids are reused; a process id together with a start time is unique.
    """
    if PROC.is_dir():
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else fields[19]
    command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    state, _, start_time = result.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else start_time.strip()


def is_running(pid: int, start_time: str) -> bool:
    """Whether the process with this id and start time still runs."""
    return bool(start_time) and read_start_time(pid) == start_time


def terminate(pid: int, start_time: str, term_timeout_s: float = TERM_TIMEOUT_S) -> bool:
    """Send SIGTERM to a process group, then SIGKILL, and wait until the process has ended; False if it had ended before."""
    if not is_running(pid, start_time):
        return False
    for kind, timeout_s in ((signal.SIGTERM, term_timeout_s), (signal.SIGKILL, float("inf"))):
        try:
            os.killpg(pid, kind)
        except ProcessLookupError:
            return True
        deadline = time.monotonic() + timeout_s
        while is_running(pid, start_time):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        else:
            return True
    return True
