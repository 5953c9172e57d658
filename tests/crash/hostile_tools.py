"""What a hostile candidate knows of the place it is to harm, and how it tells that it could. Every act is bounded."""

import array  # noqa: F401  (a candidate that is called cannot load modules any more: all that any of them needs is here)
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
"""`where`: a folder with `home/`, `run/` and `bank.db` in it; `token`: a word nobody else's files hold; `port`: where someone listens."""
LIVES_S = 20
LIBC = ctypes.CDLL(None, use_errno=True)


class Harm(Exception):
    """Something was possible that must not be."""


def harm(what: str) -> None:
    raise Harm(f"HARM: {what}")


def place(name: str) -> str:
    return str(Path(SCENE["where"]) / name)


def token() -> str:
    return SCENE["token"]


def port() -> int:
    return int(SCENE["port"].removeprefix("port-"))


def judge() -> int:
    """Whoever started this process, as far as it can be seen from here; never the first process of the machine."""
    if os.getppid() <= 1:
        raise PermissionError("the judge cannot be seen")
    return os.getppid()


def must_fail(what: str, call, *arguments) -> None:
    """Harm, unless the system refuses."""
    try:
        call(*arguments)
    except OSError:
        return
    harm(what)


def native(name: str, *arguments: int) -> int:
    """A function of the C library; its failures are OSErrors."""
    found = getattr(LIBC, name)(*(ctypes.c_long(argument) for argument in arguments))
    if found == -1:
        raise OSError(ctypes.get_errno(), name)
    return found


def linger() -> None:
    """For processes that should not be there: does nothing, in nobody's way, and not for ever."""
    signal.alarm(LIVES_S)
    os.closerange(0, 64)
    time.sleep(LIVES_S)
    os._exit(0)


def spin() -> None:
    """Never comes back, but for the alarm that no jail needs."""
    end = time.monotonic() + LIVES_S
    while time.monotonic() < end:
        pass
