"""Tries every layer of the jail, each in a copy of this process, and says which hold."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from evokernel.sandbox import syscalls

USER, NETWORK, IPC, NAMES = 0x10000000, 0x40000000, 0x08000000, 0x04000000
OWN = NETWORK | IPC | NAMES
NAMESPACES = {"user, network, ipc": USER | OWN, "network, ipc": OWN}
"""Best first: without a user namespace it takes root."""


def main() -> None:
    """A line for every layer: its name, whether it holds, and how or why not. Given a filter, and the call that installs it."""
    program, installs = bytes.fromhex(sys.argv[2]), int(sys.argv[3])
    say("limits", tried(syscalls.limit, {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 64}))
    say("privileges", tried(try_privileges))
    spaces = {words: tried(syscalls.unshare, flags) for words, flags in NAMESPACES.items()}
    best = next((words for words, why in spaces.items() if not why), "")
    say("namespaces", "" if best else next(iter(spaces.values())), best)
    why = tried(try_landlock)
    say("landlock", why, "" if why else f"version {syscalls.landlock_version()}")
    stopped = tried(try_seccomp, installs, program) if installs else "the system calls of this processor are not in the table"
    say("seccomp", "" if stopped == f"ended with {-signal.SIGSYS}" else stopped or "a forbidden call was not stopped")


def say(name: str, why_not: str, how: str = "") -> None:
    sys.stdout.write(f"{name}\t{'fails' if why_not else 'holds'}\t{why_not or how}\n")
    sys.stdout.flush()  # before the next copy


def tried(act: Callable[..., None], *arguments: object) -> str:
    """What a copy of this process could not do; nothing when it could."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        words = ""
        try:
            act(*arguments)
        except OSError as error:
            words = error.strerror or str(error)
        os.write(theirs, words.encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as said:
        words = said.read()
    _, status = os.waitpid(pid, 0)
    return words or ("" if status == 0 else f"ended with {os.waitstatus_to_exitcode(status)}")


def try_privileges() -> None:
    syscalls.drop_privileges()
    with open("/proc/self/status") as file:
        states = dict(line.split(":", 1) for line in file)
    if int(states["CapEff"], 16) or states["NoNewPrivs"].strip() != "1":
        raise OSError("they are still there")


def try_landlock() -> None:
    """A file that could be read before cannot be read after."""
    os.close(os.open(sys.executable, os.O_RDONLY))
    syscalls.drop_privileges()
    syscalls.landlock([("/proc/self", 1 << 2)])
    try:
        os.close(os.open(sys.executable, os.O_RDONLY))
    except PermissionError:
        return
    raise OSError("it does not keep files closed")


def try_seccomp(installs: int, program: bytes) -> None:
    """A call that is not in the profile ends the process: here it asks for a name no machine can have."""
    syscalls.drop_privileges()
    syscalls.seccomp(installs, program)
    syscalls.checked("sethostname", b"", -1)
