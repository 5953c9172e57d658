"""Shared by the judge's tests."""

import sys
from pathlib import Path

HONEST = "def kernel(a):\n    a.outputs[0].data[...] = 2 * a.inputs[0].data\n"


def is_alive(pid: int) -> bool:
    """Whether a process still runs; a zombie does not."""
    if sys.platform != "linux":
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
