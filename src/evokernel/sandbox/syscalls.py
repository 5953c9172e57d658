"""The system calls that make a jail, as Linux offers them to any process; used inside the process that is to be jailed."""

from __future__ import annotations

import ctypes
import os
import resource
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing them takes as long as all that is done here
    from collections.abc import Collection, Sequence

NO_NEW_PRIVS, CAPABILITY_VERSION = 38, 0x20080522
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, CLOSE_RANGE = 444, 445, 446, 436
"""Numbers that are the same on every processor."""
SET_FILTER, ALL_THREADS, KEEP_SPECULATION = 1, 1, 4
PID_MARK = 0x2E646970
"""Stands in a filter for the number of the process it is for."""
ALWAYS = (1 << 13) - 1
LATER = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Rights to files that Landlock knew from the beginning, and those that came with later versions."""
ON_FILES = 0xC007
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def call(number: int, *arguments: object) -> int:
    """A system call that libc may have no function for."""
    found = int(LIBC.syscall(ctypes.c_long(number), *arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def checked(name: str, *arguments: object) -> int:
    """A function of libc that returns -1 when it cannot."""
    found = int(getattr(LIBC, name)(*arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return found


def limit(limits: dict[str, int]) -> None:
    """Soft and hard limits, never above what holds already."""
    for name, value in limits.items():
        which = getattr(resource, name, None)
        if which is None:
            continue
        _, hard = resource.getrlimit(which)
        bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
        later = bounded + 5 if name == "RLIMIT_CPU" and hard == resource.RLIM_INFINITY else bounded
        resource.setrlimit(which, (bounded, later))


def close_all_but(kept: Collection[int]) -> None:
    """Closes every descriptor from 3 on that is not named."""
    start = 3
    for descriptor in (*sorted(kept), None):
        end = (1 << 32) - 1 if descriptor is None else descriptor - 1
        if start <= end:
            try:
                call(CLOSE_RANGE, ctypes.c_uint(start), ctypes.c_uint(end), ctypes.c_uint(0))
            except OSError:  # before Linux 5.9
                os.closerange(start, min(end + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
        start = start if descriptor is None else descriptor + 1


def drop_privileges(kept: int = 0) -> None:
    """No capabilities but the bits in `kept`, and nothing that is started can gain any."""
    checked("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    checked("capset", header, struct.pack("=6I", kept, kept, 0, 0, 0, 0))


def unshare(flags: int) -> None:
    """Namespaces of its own."""
    checked("unshare", flags)


def landlock_version() -> int:
    """Of the kernel's Landlock; an OSError where there is none."""
    return call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))


def landlock(rules: Sequence[tuple[str, int]]) -> None:
    """Files only as the rules say, no TCP, no abstract sockets and no signals to the outside, as far as the kernel can."""
    version = landlock_version()
    files = ALWAYS | sum(bits for since, bits in LATER.items() if version >= since)
    network, scoped = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
    attributes = struct.pack("=3Q", files, network, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    try:
        for path, rights in rules:
            try:
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # what cannot be opened here cannot be opened later either
            try:
                wanted = rights & files if os.path.isdir(path) else rights & files & ON_FILES
                if wanted:
                    call(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), struct.pack("=Qi", wanted, place), ctypes.c_uint(0))
            finally:
                os.close(place)
        call(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def seccomp(number: int, instructions: bytes) -> None:
    """Puts a filter over all threads of this process. Speculation stays as it is: a filter alone must not make a kernel slower."""
    mine = instructions.replace(struct.pack("=I", PID_MARK), struct.pack("=I", os.getpid()))
    memory = ctypes.create_string_buffer(mine, len(mine))
    program = Program(len(mine) // 8, ctypes.cast(memory, ctypes.c_void_p))
    flags = ALL_THREADS | KEEP_SPECULATION
    stray = call(number, ctypes.c_uint(SET_FILTER), ctypes.c_uint(flags), ctypes.byref(program))
    if stray:
        raise OSError(f"thread {stray} cannot be put under the filter")
