"""Devices shared by several processes: their physical names, and a lock for measurements."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

DEVICE_VARIABLE = "EVOKERNEL_GPU"
"""Environment variable by which a process tells the processes it starts which GPU it found, so that they need not look for it again."""
LOCK_FOLDER = Path("/tmp")
"""Folder of the lock files: the same for every user and independent of TMPDIR, because all processes must share a lock."""


def physical_device(number: int, variable: str, environment: Mapping[str, str] = os.environ) -> str:
    """Translate a device number of this process into the machine's name, given a variable such as CUDA_VISIBLE_DEVICES."""
    visible = [word.strip() for word in environment.get(variable, "").split(",") if word.strip()]
    return visible[number] if number < len(visible) else str(number)


@contextmanager
def hold_device(name: str) -> Iterator[None]:
    """Lock a device of this machine for one measurement, across all processes and users. The lock ends with the process."""
    descriptor = open_lock_file((LOCK_FOLDER if LOCK_FOLDER.is_dir() else Path(tempfile.gettempdir())) / f"evokernel-{name}.lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def open_lock_file(path: Path) -> int:
    """Open a lock file read-only: a file of another user can be locked, but neither written nor replaced."""
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDONLY)
    try:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    except PermissionError:  # another user has just created it
        return os.open(path, os.O_RDONLY)
