"""The Linux system calls that build a sandbox, available to any process; called in the process that is to be confined."""

from __future__ import annotations

import ctypes
import os
import resource
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing these modules takes as long as everything below
    from collections.abc import Collection, Sequence

NO_NEW_PRIVS, CAPABILITY_VERSION = 38, 0x20080522
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, CLOSE_RANGE = 444, 445, 446, 436
"""System call numbers that are equal on all processors."""
SET_FILTER, ALL_THREADS, KEEP_SPECULATION = 1, 1, 4
PID_PLACEHOLDER = 0x2E646970
"""Placeholder in a filter for the id of the process that installs it."""
BASE_RIGHTS = (1 << 13) - 1
"""File rights of the first Landlock version, and those that later versions added."""
RIGHTS_BY_VERSION = {2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
"""Rights to files that Landlock knew from the beginning, and those that came with later versions."""
FILE_RIGHTS = 0xC007
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


class FilterProgram(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def invoke_syscall(number: int, *arguments: object) -> int:
    """Invoke a system call for which libc may have no function."""
    result = int(LIBC.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def invoke_libc(name: str, *arguments: object) -> int:
    """Invoke a libc function that returns -1 on failure."""
    result = int(getattr(LIBC, name)(*arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
    return result


def set_limits(limits: dict[str, int]) -> None:
    """Set soft and hard resource limits, never above the current ones."""
    for name, value in limits.items():
        which = getattr(resource, name, None)
        if which is None:
            continue
        _, hard = resource.getrlimit(which)
        soft_limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        hard_limit = soft_limit + 5 if name == "RLIMIT_CPU" and hard == resource.RLIM_INFINITY else soft_limit
        resource.setrlimit(which, (soft_limit, hard_limit))


def close_other_descriptors(kept_descriptors: Collection[int]) -> None:
    """Close every descriptor from 3 on that is not listed."""
    start = 3
    for descriptor in (*sorted(kept_descriptors), None):
        end = (1 << 32) - 1 if descriptor is None else descriptor - 1
        if start <= end:
            try:
                invoke_syscall(CLOSE_RANGE, ctypes.c_uint(start), ctypes.c_uint(end), ctypes.c_uint(0))
            except OSError:  # older than Linux 5.9
                os.closerange(start, min(end + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
        start = start if descriptor is None else descriptor + 1


def drop_privileges(kept_capabilities: int = 0) -> None:
    """Drop all capabilities except the bits in `kept_capabilities`; child processes cannot gain any."""
    invoke_libc("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    header = struct.pack("=Ii", CAPABILITY_VERSION, 0)
    invoke_libc("capset", header, struct.pack("=6I", kept_capabilities, kept_capabilities, 0, 0, 0, 0))


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    invoke_libc("unshare", flags)


def get_landlock_version() -> int:
    """Return the kernel's Landlock version; raise OSError if it has none."""
    return invoke_syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))


def apply_landlock(rules: Sequence[tuple[str, int]]) -> None:
    """Restrict file access to the rules; forbid TCP, abstract sockets and signals to other processes as far as the kernel supports it."""
    version = get_landlock_version()
    files = BASE_RIGHTS | sum(bits for since, bits in RIGHTS_BY_VERSION.items() if version >= since)
    network, scoped = (3 if version >= 4 else 0), (3 if version >= 6 else 0)
    attributes = struct.pack("=3Q", files, network, scoped)[: 24 if version >= 6 else 16 if version >= 4 else 8]
    ruleset = invoke_syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    try:
        for path, rights in rules:
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue  # a path that cannot be opened here cannot be opened later, either
            try:
                path_rights = rights & files if os.path.isdir(path) else rights & files & FILE_RIGHTS
                if path_rights:
                    invoke_syscall(
                        ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), struct.pack("=Qi", path_rights, descriptor), ctypes.c_uint(0)
                    )
            finally:
                os.close(descriptor)
        invoke_syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def apply_seccomp(number: int, instructions: bytes) -> None:
    """Install a filter for all threads of this process. Speculation settings stay unchanged: a filter must not slow a kernel down."""
    own_program = instructions.replace(struct.pack("=I", PID_PLACEHOLDER), struct.pack("=I", os.getpid()))
    memory = ctypes.create_string_buffer(own_program, len(own_program))
    program = FilterProgram(len(own_program) // 8, ctypes.cast(memory, ctypes.c_void_p))
    flags = ALL_THREADS | KEEP_SPECULATION
    failed_thread = invoke_syscall(number, ctypes.c_uint(SET_FILTER), ctypes.c_uint(flags), ctypes.byref(program))
    if failed_thread:
        raise OSError(f"thread {failed_thread} cannot be put under the filter")
