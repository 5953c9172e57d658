"""The programs that judge system calls, run here on an interpreter of our own, for both kinds of processors."""

import errno
import struct

import pytest

from evokernel.sandbox import syscall_filter
from evokernel.sandbox.syscalls import PID_MARK

MACHINES = ("x86_64", "aarch64")
ALLOWED, KILLED, PRETENDED = "allow", "kill", "pretend"
RUN = [name for name in syscall_filter.profiles()["profiles"] if name != "careful"]


def judged(profile, machine, call, *arguments, audit=None):
    """What happens to a call, by name or number."""
    table = syscall_filter.table(machine)
    number = table.calls[call] if isinstance(call, str) else call
    padded = [argument & (1 << 64) - 1 for argument in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number, audit or table.audit, 0, *padded)
    steps = list(struct.iter_unpack("=HBBI", syscall_filter.program(profile, machine)))
    at = held = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        if code == syscall_filter.LOAD:
            (held,) = struct.unpack_from("<I", data, value)
        elif code == syscall_filter.RETURN:
            return {syscall_filter.ALLOW: ALLOWED, syscall_filter.KILL: KILLED, syscall_filter.ERRNO: PRETENDED}.get(
                value
            ) or errno.errorcode[value & 0xFFFF]
        elif code == syscall_filter.JUMP_ALWAYS:
            at += value
        else:
            tests = {
                syscall_filter.JUMP_EQUAL: held == value,
                syscall_filter.JUMP_AT_LEAST: held >= value,
                syscall_filter.JUMP_BITS: bool(held & value),
            }
            at += if_true if tests[code] else if_false


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("profile", RUN)
def test_every_named_call_is_judged_as_the_profile_says(machine, profile):
    table = syscall_filter.table(machine)
    named, otherwise = syscall_filter.rules(profile)
    assert len(syscall_filter.program(profile, machine)) // 8 <= 4096
    for name, number in table.calls.items():
        clauses = named.get(name, [("", otherwise)])
        if len(clauses) == 1:
            assert judged(profile, machine, name) == clauses[0][1], name
        else:
            assert judged(profile, machine, number, *[0x80000000] * 6) == clauses[-1][1], name
    unnamed = set(range(table.last + 1)) - {table.calls[name] for name in named if name in table.calls}
    assert {judged(profile, machine, number) for number in unnamed} == {otherwise}
    assert judged(profile, machine, table.last + 1) == "ENOSYS"
    assert judged(profile, machine, 0x3FFFFFFF) == "ENOSYS"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("profile", RUN)
def test_calls_of_another_processor_end_the_process(machine, profile):
    assert judged(profile, machine, "read", audit=0x40000003) == KILLED  # 32-bit x86
    assert judged(profile, machine, syscall_filter.X32 + 1) == KILLED


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("profile", "call", "arguments", "expected"),
    [
        ("kernel", "clone", (0x10F00,), "EAGAIN"),
        ("kernel", "clone", (17,), KILLED),
        ("threaded", "clone", (0x3D0F00,), ALLOWED),
        ("threaded", "clone", (17,), KILLED),
        ("interpreter", "clone", (17,), KILLED),
        ("compiler", "clone", (17,), ALLOWED),
        ("compiler", "clone", (17 | 0x10000000,), "EPERM"),
        ("kernel", "mmap", (0, 4096, 3, 0x22), ALLOWED),
        ("kernel", "mmap", (0, 4096, 5, 0x02), ALLOWED),
        ("kernel", "mmap", (0, 4096, 5, 0x22), "EACCES"),
        ("kernel", "mmap", (0, 4096, 7, 0x02), "EACCES"),
        ("loaded", "mmap", (0, 4096, 5, 0x02), "EACCES"),
        ("interpreter", "mmap", (0, 4096, 7, 0x22), ALLOWED),
        ("kernel", "mprotect", (0, 4096, 5), "EACCES"),
        ("kernel", "mprotect", (0, 4096, 1), ALLOWED),
        ("kernel", "openat", (-100, 0, 0x80000), ALLOWED),
        ("kernel", "openat", (-100, 0, 0x80001), "EACCES"),
        ("kernel", "openat", (-100, 0, 0x80042), "EACCES"),
        ("loaded", "openat", (-100, 0, 0x80000), "EACCES"),
        ("kernel", "kill", (PID_MARK, 9), ALLOWED),
        ("kernel", "kill", (-1, 9), KILLED),
        ("kernel", "kill", (0, 9), KILLED),
        ("kernel", "tgkill", (PID_MARK, 1, 6), ALLOWED),
        ("kernel", "prctl", (15,), ALLOWED),
        ("kernel", "prctl", (4, 1), "EPERM"),
        ("kernel", "prctl", (22, 2), "EPERM"),
        ("kernel", "prlimit64", (0, 7, 0, 1), ALLOWED),
        ("kernel", "prlimit64", (0, 7, 0x7F0000000000, 0), "EPERM"),
        ("kernel", "fcntl", (3, 1033, 8), "EPERM"),
        ("kernel", "seccomp", (1,), ALLOWED),
        ("loaded", "seccomp", (1,), KILLED),
        ("interpreter", "seccomp", (1,), KILLED),
        ("interpreter", "ftruncate", (3, 0), ALLOWED),
        ("kernel", "ftruncate", (3, 0), KILLED),
        ("compiler", "socket", (2, 2, 0), "EPERM"),
        ("compiler", "utimensat", (-100,), "EPERM"),
        ("toolkit", "utimensat", (-100,), ALLOWED),
        ("toolkit", "fchownat", (-100,), ALLOWED),
        ("toolkit", "setsid", (), PRETENDED),
        ("toolkit", "setpgid", (0, 0), PRETENDED),
        ("toolkit", "clone", (17,), ALLOWED),
        ("toolkit", "clone", (17 | 0x10000000,), "EPERM"),
        ("toolkit", "socketpair", (1, 0x80001), ALLOWED),
        ("toolkit", "socketpair", (1, 2), "EPERM"),
        ("toolkit", "socket", (1, 1), "EPERM"),
        ("toolkit", "sendto", (3, 0x1000, 8, 0, 0), ALLOWED),
        ("toolkit", "sendto", (3, 0x1000, 8, 0, 0x2000), "EPERM"),
        ("toolkit", "ptrace", (0,), "EPERM"),
        ("measured", "socket", (1, 1), ALLOWED),
        ("measured", "socket", (2, 1), "EPERM"),
        ("measured", "socket", (10, 2), "EPERM"),
        ("measured", "setsid", (), PRETENDED),
        ("card", "ioctl", (3, 0xC0184900), ALLOWED),
        ("card", "ioctl", (0, 0x5412), "EPERM"),
        ("card", "clone", (0x3D0F00,), ALLOWED),
        ("card", "clone", (17,), "EPERM"),
        ("card", "execve", (), "EPERM"),
        ("card", "socket", (1, 1), "EPERM"),
        ("card", "kill", (PID_MARK, 6), ALLOWED),
        ("card", "kill", (-1, 9), "EPERM"),
        ("card", "tgkill", (PID_MARK, 1, 6), ALLOWED),
        ("card", "tgkill", (1, 1, 9), "EPERM"),
        ("card", "prlimit64", (0, 7, 0, 1), ALLOWED),
        ("card", "prlimit64", (0, 7, 0x7F0000000000, 0), "EPERM"),
        ("card", "eventfd2", (), ALLOWED),
        ("card", "epoll_create1", (), ALLOWED),
        ("card", "pipe2", (), ALLOWED),
        ("card", "mlock", (), ALLOWED),
        ("card", "setsid", (), "EPERM"),
        ("card", "fchmodat", (), "EPERM"),
    ],
)
def test_arguments_decide(machine, profile, call, arguments, expected):
    assert judged(profile, machine, call, *arguments) == expected


@pytest.mark.parametrize("profile", RUN)
def test_the_mark_for_the_process_stands_only_where_it_is_meant(profile):
    """It is replaced wherever its four bytes occur."""
    for machine in MACHINES:
        program = syscall_filter.program(profile, machine)
        values = [struct.unpack_from("=HBBI", program, at)[3] for at in range(0, len(program), 8)]
        assert program.count(struct.pack("=I", PID_MARK)) == values.count(PID_MARK)


def test_an_unknown_processor_has_no_filter():
    assert syscall_filter.table("riscv64") is None
    assert syscall_filter.program("kernel", "riscv64") is None
