"""Helpers for hostile candidates: the environment they attack, and how they report success. Every act is bounded."""

import array  # noqa: F401  (a loaded candidate cannot import modules any more, so all of them are imported here)
import ctypes
import fcntl  # noqa: F401
import mmap  # noqa: F401
import os
import resource  # noqa: F401
import shutil  # noqa: F401
import signal
import socket  # noqa: F401
import subprocess  # noqa: F401
import threading  # noqa: F401
import time
from pathlib import Path

SCENE: dict[str, str] = {}
"""`where`: a folder with `home/`, `run/` and `bank.db` in it; `token`: a word that no other file contains; `port`: of a listener."""
LIVES_S = 120
LIBC = ctypes.CDLL(None, use_errno=True)


class Harm(Exception):
    """A forbidden act succeeded."""


def harm(what: str) -> None:
    raise Harm(f"HARM: {what}")


def place(name: str) -> str:
    return str(Path(SCENE["where"]) / name)


def token() -> str:
    return SCENE["token"]


def port() -> int:
    return int(SCENE["port"].removeprefix("port-"))


def verifier_pid() -> int:
    """Return the id of the parent process, as far as it is visible here; never the first process of the machine."""
    if os.getppid() <= 1:
        raise PermissionError("the verifier cannot be seen")
    return os.getppid()


def must_fail(what: str, call, *arguments) -> None:
    """Report harm unless the system refuses the call."""
    try:
        call(*arguments)
    except OSError:
        return
    harm(what)


def native(name: str, *arguments: int) -> int:
    """Call a function of the C library; raise OSError if it fails."""
    result = getattr(LIBC, name)(*(ctypes.c_long(argument) for argument in arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def linger() -> None:
    """Keep an illicit process alive, harmless and for a limited time."""
    signal.alarm(LIVES_S)
    os.closerange(0, 64)
    time.sleep(LIVES_S)
    os._exit(0)


def spin() -> None:
    """Loop until a time-out that no sandbox needs."""
    end = time.monotonic() + LIVES_S
    while time.monotonic() < end:
        pass
