"""Devices that several processes share: what the machine calls them, and who measures on one now."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

PLACE = Path("/tmp")
"""The same for every user and whatever TMPDIR says: a lock that is not shared is none."""


def physical_device(number: int, variable: str, environment: Mapping[str, str] = os.environ) -> str:
    """What the machine calls a device, by its number among those that a variable such as CUDA_VISIBLE_DEVICES shows this process."""
    shown = [word.strip() for word in environment.get(variable, "").split(",") if word.strip()]
    return shown[number] if number < len(shown) else str(number)


@contextmanager
def hold_device(name: str) -> Iterator[None]:
    """One measurement at a time on a device of this machine, whoever else judges here. The lock goes with the process that holds it."""
    descriptor = open_lock_file((PLACE if PLACE.is_dir() else Path(tempfile.gettempdir())) / f"evokernel-{name}.lock")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def open_lock_file(path: Path) -> int:
    """To read only: a file that another user made may be locked, but neither written nor made again."""
    with suppress(FileNotFoundError):
        return os.open(path, os.O_RDONLY)
    try:
        return os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    except PermissionError:  # made by another user a moment ago
        return os.open(path, os.O_RDONLY)
