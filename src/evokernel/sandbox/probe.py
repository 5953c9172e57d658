"""Tries every sandbox layer, each in a fork of this process, and prints which are active."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from evokernel.sandbox import syscalls

USER, NETWORK, IPC, HOSTNAME = 0x10000000, 0x40000000, 0x08000000, 0x04000000
ISOLATED = NETWORK | IPC | HOSTNAME
NAMESPACES = {"user, network, ipc": USER | ISOLATED, "network, ipc": ISOLATED}
"""Best first: without a user namespace, root is required."""


def main() -> None:
    """Print one line for every layer: its name, whether it is active, and how or why not. Arguments: a filter, the seccomp number."""
    program, seccomp_number = bytes.fromhex(sys.argv[2]), int(sys.argv[3])
    print_result("limits", try_in_copy(syscalls.set_limits, {"RLIMIT_CORE": 0, "RLIMIT_NOFILE": 64}))
    print_result("privileges", try_in_copy(try_privileges))
    failures_by_kind = {words: try_in_copy(syscalls.unshare, flags) for words, flags in NAMESPACES.items()}
    best = next((words for words, why in failures_by_kind.items() if not why), "")
    print_result("namespaces", "" if best else next(iter(failures_by_kind.values())), best)
    why = try_in_copy(try_landlock)
    print_result("landlock", why, "" if why else f"version {syscalls.get_landlock_version()}")
    failure = try_in_copy(try_seccomp, seccomp_number, program) if seccomp_number else "the table has no system calls for this processor"
    print_result("seccomp", "" if failure == f"ended with {-signal.SIGSYS}" else failure or "a forbidden system call was not stopped")


def print_result(name: str, failure: str, detail: str = "") -> None:
    sys.stdout.write(f"{name}\t{'inactive' if failure else 'active'}\t{failure or detail}\n")
    sys.stdout.flush()  # before the next fork


def try_in_copy(action: Callable[..., None], *arguments: object) -> str:
    """Run an action in a fork of this process; return why it failed, or an empty text."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if not pid:
        message = ""
        try:
            action(*arguments)
        except OSError as error:
            message = error.strerror or str(error)
        os.write(write_end, message.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        message = stream.read()
    _, status = os.waitpid(pid, 0)
    return message or ("" if status == 0 else f"ended with {os.waitstatus_to_exitcode(status)}")


def try_privileges() -> None:
    """Drop all privileges and verify that they are gone."""
    syscalls.drop_privileges()
    with open("/proc/self/status") as file:
        states = dict(line.split(":", 1) for line in file)
    if int(states["CapEff"], 16) or states["NoNewPrivs"].strip() != "1":
        raise OSError("the capabilities are still there")


def try_landlock() -> None:
    """Verify that a file that could be opened before cannot be opened after."""
    os.close(os.open(sys.executable, os.O_RDONLY))
    syscalls.drop_privileges()
    syscalls.apply_landlock([("/proc/self", 1 << 2)])
    try:
        os.close(os.open(sys.executable, os.O_RDONLY))
    except PermissionError:
        return
    raise OSError("a file outside the rules can still be opened")


def try_seccomp(seccomp_number: int, program: bytes) -> None:
    """Make a system call outside the profile, which ends the process; its arguments are invalid on every machine."""
    syscalls.drop_privileges()
    syscalls.apply_seccomp(seccomp_number, program)
    syscalls.invoke_libc("sethostname", b"", -1)
