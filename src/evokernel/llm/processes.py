"""Processes that outlive us: which of them is still the one that was started, and how it is ended for sure."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

PROC = Path("/proc")
POLITE_S = 5.0
POLL_S = 0.05


def born(pid: int) -> str:
    """When a process began, in the system's words; nothing when there is none, or only what is left of one.

    Process numbers are used again. A number and a birth together are not.
    """
    if PROC.is_dir():
        try:
            fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else fields[19]
    done = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    state, _, began = done.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else began.strip()


def is_running(pid: int, birth: str) -> bool:
    """Whether the process that was born then still runs."""
    return bool(birth) and born(pid) == birth


def end(pid: int, birth: str, polite_s: float = POLITE_S) -> bool:
    """Asks a process to end, makes it end when it does not, and returns once it is gone; False when it was gone before."""
    if not is_running(pid, birth):
        return False
    for kind, patience in ((signal.SIGTERM, polite_s), (signal.SIGKILL, float("inf"))):
        try:
            os.killpg(pid, kind)
        except ProcessLookupError:
            return True
        until = time.monotonic() + patience
        while is_running(pid, birth):
            if time.monotonic() > until:
                break
            time.sleep(POLL_S)
        else:
            return True
    return True
