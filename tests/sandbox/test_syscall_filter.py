"""The system call filters, run on a small BPF interpreter for both processor architectures."""

import errno
import struct

import pytest

from evokernel.sandbox import syscall_filter
from evokernel.sandbox.syscalls import PID_PLACEHOLDER

MACHINES = ("x86_64", "aarch64")
ALLOWED, KILLED, FAKED = "allow", "kill", "fake_success"
USED_PROFILES = [name for name in syscall_filter.load_profiles()["profiles"] if name != "base"]


def run_filter(profile, machine, call, *arguments, audit_arch=None):
    """Return the action for a call, given by name or number."""
    table = syscall_filter.load_table(machine)
    number = table.calls[call] if isinstance(call, str) else call
    all_arguments = [argument & (1 << 64) - 1 for argument in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("<IIQ6Q", number, audit_arch or table.audit_arch, 0, *all_arguments)
    steps = list(struct.iter_unpack("=HBBI", syscall_filter.compile_filter(profile, machine)))
    position = accumulator = 0
    while True:
        code, if_true, if_false, value = steps[position]
        position += 1
        if code == syscall_filter.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, value)
        elif code == syscall_filter.RETURN:
            return {syscall_filter.ALLOW: ALLOWED, syscall_filter.KILL: KILLED, syscall_filter.ERRNO: FAKED}.get(value) or errno.errorcode[
                value & 0xFFFF
            ]
        elif code == syscall_filter.JUMP_ALWAYS:
            position += value
        else:
            tests = {
                syscall_filter.JUMP_EQUAL: accumulator == value,
                syscall_filter.JUMP_AT_LEAST: accumulator >= value,
                syscall_filter.JUMP_BITS: bool(accumulator & value),
            }
            position += if_true if tests[code] else if_false


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("profile", USED_PROFILES)
def test_every_named_call_gets_its_action(machine, profile):
    table = syscall_filter.load_table(machine)
    rules, default = syscall_filter.resolve_rules(profile)
    assert len(syscall_filter.compile_filter(profile, machine)) // 8 <= 4096
    for name, number in table.calls.items():
        clauses = rules.get(name, [("", default)])
        if len(clauses) == 1:
            assert run_filter(profile, machine, name) == clauses[0][1], name
        else:
            assert run_filter(profile, machine, number, *[0x80000000] * 6) == clauses[-1][1], name
    other_numbers = set(range(table.last + 1)) - {table.calls[name] for name in rules if name in table.calls}
    assert {run_filter(profile, machine, number) for number in other_numbers} == {default}
    assert run_filter(profile, machine, table.last + 1) == "ENOSYS"
    assert run_filter(profile, machine, 0x3FFFFFFF) == "ENOSYS"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("profile", USED_PROFILES)
def test_calls_of_another_architecture_kill_the_process(machine, profile):
    assert run_filter(profile, machine, "read", audit_arch=0x40000003) == KILLED  # 32-bit x86
    assert run_filter(profile, machine, syscall_filter.X32_BIT + 1) == KILLED


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
        ("kernel_loaded", "mmap", (0, 4096, 5, 0x02), "EACCES"),
        ("interpreter", "mmap", (0, 4096, 7, 0x22), ALLOWED),
        ("kernel", "mprotect", (0, 4096, 5), "EACCES"),
        ("kernel", "mprotect", (0, 4096, 1), ALLOWED),
        ("kernel", "openat", (-100, 0, 0x80000), ALLOWED),
        ("kernel", "openat", (-100, 0, 0x80001), "EACCES"),
        ("kernel", "openat", (-100, 0, 0x80042), "EACCES"),
        ("kernel_loaded", "openat", (-100, 0, 0x80000), "EACCES"),
        ("kernel", "kill", (PID_PLACEHOLDER, 9), ALLOWED),
        ("kernel", "kill", (-1, 9), KILLED),
        ("kernel", "kill", (0, 9), KILLED),
        ("kernel", "tgkill", (PID_PLACEHOLDER, 1, 6), ALLOWED),
        ("kernel", "prctl", (15,), ALLOWED),
        ("kernel", "prctl", (4, 1), "EPERM"),
        ("kernel", "prctl", (22, 2), "EPERM"),
        ("kernel", "prlimit64", (0, 7, 0, 1), ALLOWED),
        ("kernel", "prlimit64", (0, 7, 0x7F0000000000, 0), "EPERM"),
        ("kernel", "fcntl", (3, 1033, 8), "EPERM"),
        ("kernel", "seccomp", (1,), ALLOWED),
        ("kernel_loaded", "seccomp", (1,), KILLED),
        ("interpreter", "seccomp", (1,), KILLED),
        ("interpreter", "ftruncate", (3, 0), ALLOWED),
        ("kernel", "ftruncate", (3, 0), KILLED),
        ("compiler", "socket", (2, 2, 0), "EPERM"),
        ("compiler", "utimensat", (-100,), "EPERM"),
        ("toolkit", "utimensat", (-100,), ALLOWED),
        ("toolkit", "fchownat", (-100,), ALLOWED),
        ("toolkit", "setsid", (), FAKED),
        ("toolkit", "setpgid", (0, 0), FAKED),
        ("toolkit", "clone", (17,), ALLOWED),
        ("toolkit", "clone", (17 | 0x10000000,), "EPERM"),
        ("toolkit", "socketpair", (1, 0x80001), ALLOWED),
        ("toolkit", "socketpair", (1, 2), "EPERM"),
        ("toolkit", "socket", (1, 1), "EPERM"),
        ("toolkit", "sendto", (3, 0x1000, 8, 0, 0), ALLOWED),
        ("toolkit", "sendto", (3, 0x1000, 8, 0, 0x2000), "EPERM"),
        ("toolkit", "ptrace", (0,), "EPERM"),
        ("profiler", "socket", (1, 1), ALLOWED),
        ("profiler", "socket", (2, 1), "EPERM"),
        ("profiler", "socket", (10, 2), "EPERM"),
        ("profiler", "setsid", (), FAKED),
        ("device", "ioctl", (3, 0xC0184900), ALLOWED),
        ("device", "ioctl", (0, 0x5412), "EPERM"),
        ("device", "clone", (0x3D0F00,), ALLOWED),
        ("device", "clone", (17,), "EPERM"),
        ("device", "execve", (), "EPERM"),
        ("device", "socket", (1, 1), "EPERM"),
        ("device", "kill", (PID_PLACEHOLDER, 6), ALLOWED),
        ("device", "kill", (-1, 9), "EPERM"),
        ("device", "tgkill", (PID_PLACEHOLDER, 1, 6), ALLOWED),
        ("device", "tgkill", (1, 1, 9), "EPERM"),
        ("device", "prlimit64", (0, 7, 0, 1), ALLOWED),
        ("device", "prlimit64", (0, 7, 0x7F0000000000, 0), "EPERM"),
        ("device", "eventfd2", (), ALLOWED),
        ("device", "epoll_create1", (), ALLOWED),
        ("device", "pipe2", (), ALLOWED),
        ("device", "mlock", (), ALLOWED),
        ("device", "setsid", (), "EPERM"),
        ("device", "fchmodat", (), "EPERM"),
    ],
)
def test_arguments_decide_the_action(machine, profile, call, arguments, expected):
    assert run_filter(profile, machine, call, *arguments) == expected


@pytest.mark.parametrize("profile", USED_PROFILES)
def test_pid_placeholder_occurs_only_as_a_value(profile):
    """Installation replaces its four bytes wherever they occur."""
    for machine in MACHINES:
        program = syscall_filter.compile_filter(profile, machine)
        values = [struct.unpack_from("=HBBI", program, position)[3] for position in range(0, len(program), 8)]
        assert program.count(struct.pack("=I", PID_PLACEHOLDER)) == values.count(PID_PLACEHOLDER)


def test_unknown_processor_has_no_filter():
    assert syscall_filter.load_table("riscv64") is None
    assert syscall_filter.compile_filter("kernel", "riscv64") is None
