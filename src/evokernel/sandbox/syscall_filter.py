"""Compiles a profile of system calls to the filter program (classic BPF) that Linux runs for every system call of a sandboxed process."""

from __future__ import annotations

import errno
import platform
import struct
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from evokernel.sandbox.syscalls import PID_PLACEHOLDER

LOAD, JUMP_ALWAYS, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_BITS, RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
KILL, ALLOW, ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
X32_BIT = 0x40000000
"""Marks the second set of system call numbers on x86-64."""
FOLDER = Path(__file__).parent
MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}


class Instruction(NamedTuple):
    """One `struct sock_filter`."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0


Code = list[Instruction]
Clause = tuple[str, str]
"""A condition on the arguments, and the action if it is true."""


class SyscallTable(NamedTuple):
    """The system calls of a processor architecture."""

    audit_arch: int
    last: int
    calls: Mapping[str, int]


@lru_cache
def load_table(machine: str = "") -> SyscallTable | None:
    """Return the table of this or another processor, or None if it is unknown."""
    name = machine or platform.machine()
    entry = tomllib.loads((FOLDER / "syscalls.toml").read_text()).get(MACHINES.get(name, name))
    return SyscallTable(**entry) if entry else None


@lru_cache
def load_profiles() -> dict[str, Any]:
    """Load `profiles.toml`."""
    return tomllib.loads((FOLDER / "profiles.toml").read_text())


def resolve_rules(profile: str) -> tuple[dict[str, Sequence[Clause]], str]:
    """Return the clauses of each system call that a profile names, and the action for all others."""
    settings, groups = load_profiles()["profiles"][profile], load_profiles()["calls"]
    clauses, default = resolve_rules(settings["extends"]) if "extends" in settings else ({}, "")
    clauses |= {name: [("", "allow")] for group in settings.get("allow", ()) for name in groups[group]}
    clauses |= {name: [("", "EPERM")] for group in settings.get("refuse", ()) for name in groups[group]}
    return clauses | settings.get("conditions", {}), settings.get("default", default)


@lru_cache
def compile_filter(profile: str, machine: str = "") -> bytes | None:
    """Return the filter program of a profile, or None if the system calls of the processor are unknown."""
    table = load_table(machine)
    if table is None:
        return None
    rules, default = resolve_rules(profile)
    by_number = {table.calls[name]: compile_clauses(clauses) for name, clauses in rules.items() if name in table.calls}
    actions = [by_number.get(number, compile_action(default)) for number in range(table.last + 1)] + [compile_action("ENOSYS")]
    ends = [0]
    for _, group in groupby(actions, key=str):
        ends.append(ends[-1] + len(list(group)))
    program = [
        Instruction(LOAD, ARCHITECTURE_OFFSET),
        Instruction(JUMP_EQUAL, table.audit_arch, 1, 0),
        *compile_action("kill"),
        Instruction(LOAD, NUMBER_OFFSET),
        Instruction(JUMP_AT_LEAST, X32_BIT, 0, 1),
        *compile_action("kill"),
        *compile_search([(start, actions[start]) for start in ends[:-1]]),
    ]
    return b"".join(struct.pack("=HBBI", step.code, step.if_true, step.if_false, step.value) for step in program)


def compile_search(parts: Sequence[tuple[int, Code]]) -> Code:
    """Compile a binary search for the part whose numbers contain the call's number."""
    if len(parts) == 1:
        return parts[0][1]
    middle = len(parts) // 2
    lower, upper = compile_search(parts[:middle]), compile_search(parts[middle:])
    if len(lower) < 256:
        return [Instruction(JUMP_AT_LEAST, parts[middle][0], len(lower), 0), *lower, *upper]
    return [Instruction(JUMP_AT_LEAST, parts[middle][0], 0, 1), Instruction(JUMP_ALWAYS, len(lower)), *lower, *upper]


def compile_clauses(clauses: Sequence[Clause]) -> Code:
    """Compile clauses: the first one that is true decides."""
    program: Code = []
    for condition, action in clauses:
        tests, result = [compile_test(word) for word in condition.split()], compile_action(action)
        remaining = sum(map(len, tests)) + len(result)
        for one in tests:
            remaining -= len(one)
            program += [step if step.code == LOAD else step._replace(if_false=remaining + len(one) - 1 - at) for at, step in enumerate(one)]
        program += result
    return program


def compile_test(word: str) -> Code:
    """Compile a test of an argument; the program continues if it is true. Bits are tested in the lower half, where all flags are."""
    argument, sign, text = word[0], word[1], word[2:]
    value = PID_PLACEHOLDER if text == "pid" else int(text, 0)
    offset = ARGUMENTS_OFFSET + 8 * int(argument)
    lower = [Instruction(LOAD, offset), Instruction(JUMP_BITS if sign == "&" else JUMP_EQUAL, value)]
    return lower if sign == "&" or value else [*lower, Instruction(LOAD, offset + 4), Instruction(JUMP_EQUAL, 0)]


def compile_action(word: str) -> Code:
    """Compile the end of the program. `fake_success` skips the call and returns success to its caller."""
    return [Instruction(RETURN, {"allow": ALLOW, "kill": KILL, "fake_success": ERRNO}.get(word) or ERRNO | getattr(errno, word))]
