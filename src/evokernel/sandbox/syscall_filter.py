"""Turns a profile of system calls into the program that Linux runs for every call of a jailed process (classic BPF)."""

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

from evokernel.sandbox.syscalls import PID_MARK

LOAD, JUMP_ALWAYS, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_BITS, RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, ARCHITECTURE_AT, ARGUMENTS_AT = 0, 4, 16
KILL, ALLOW, ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
X32 = 0x40000000
"""The second set of call numbers on x86-64."""
HERE = Path(__file__).parent
MACHINES = {"AMD64": "x86_64", "arm64": "aarch64"}


class Instruction(NamedTuple):
    """One of `struct sock_filter`."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0


Code = list[Instruction]
Clause = tuple[str, str]
"""What must hold of the arguments, and what happens then."""


class Table(NamedTuple):
    """The system calls of a kind of processor."""

    audit: int
    last: int
    calls: Mapping[str, int]


@lru_cache
def table(machine: str = "") -> Table | None:
    """Of this processor, or of another; None when it is not known."""
    name = machine or platform.machine()
    found = tomllib.loads((HERE / "syscalls.toml").read_text()).get(MACHINES.get(name, name))
    return Table(**found) if found else None


@lru_cache
def profiles() -> dict[str, Any]:
    return tomllib.loads((HERE / "profiles.toml").read_text())


def rules(profile: str) -> tuple[dict[str, Sequence[Clause]], str]:
    """What happens to each call that a profile names, and to all others."""
    given, groups = profiles()["profiles"][profile], profiles()["calls"]
    found, otherwise = rules(given["like"]) if "like" in given else ({}, "")
    found |= {name: [("", "allow")] for group in given.get("allow", ()) for name in groups[group]}
    found |= {name: [("", "EPERM")] for group in given.get("refuse", ()) for name in groups[group]}
    return found | given.get("conditions", {}), given.get("otherwise", otherwise)


@lru_cache
def program(profile: str, machine: str = "") -> bytes | None:
    """The filter for a profile; None where the processor's calls are not known."""
    known = table(machine)
    if known is None:
        return None
    named, otherwise = rules(profile)
    by_number = {known.calls[name]: code(clauses) for name, clauses in named.items() if name in known.calls}
    everything = [by_number.get(number, action(otherwise)) for number in range(known.last + 1)] + [action("ENOSYS")]
    ends = [0]
    for _, alike in groupby(everything, key=str):
        ends.append(ends[-1] + len(list(alike)))
    whole = [
        Instruction(LOAD, ARCHITECTURE_AT),
        Instruction(JUMP_EQUAL, known.audit, 1, 0),
        *action("kill"),
        Instruction(LOAD, NUMBER_AT),
        Instruction(JUMP_AT_LEAST, X32, 0, 1),
        *action("kill"),
        *choice([(start, everything[start]) for start in ends[:-1]]),
    ]
    return b"".join(struct.pack("=HBBI", one.code, one.if_true, one.if_false, one.value) for one in whole)


def choice(parts: Sequence[tuple[int, Code]]) -> Code:
    """Finds the part whose numbers hold the call's, by halves."""
    if len(parts) == 1:
        return parts[0][1]
    middle = len(parts) // 2
    lower, upper = choice(parts[:middle]), choice(parts[middle:])
    if len(lower) < 256:
        return [Instruction(JUMP_AT_LEAST, parts[middle][0], len(lower), 0), *lower, *upper]
    return [Instruction(JUMP_AT_LEAST, parts[middle][0], 0, 1), Instruction(JUMP_ALWAYS, len(lower)), *lower, *upper]


def code(clauses: Sequence[Clause]) -> Code:
    """The first clause that holds decides."""
    found: Code = []
    for condition, verdict in clauses:
        tests, then = [test(word) for word in condition.split()], action(verdict)
        left = sum(map(len, tests)) + len(then)
        for one in tests:
            left -= len(one)
            found += [step if step.code == LOAD else step._replace(if_false=left + len(one) - 1 - at) for at, step in enumerate(one)]
        found += then
    return found


def test(word: str) -> Code:
    """Looks at an argument; goes on when it holds. Bits are looked for in the lower half, where all flags are."""
    which, sign, text = word[0], word[1], word[2:]
    value = PID_MARK if text == "pid" else int(text, 0)
    at = ARGUMENTS_AT + 8 * int(which)
    lower = [Instruction(LOAD, at), Instruction(JUMP_BITS if sign == "&" else JUMP_EQUAL, value)]
    return lower if sign == "&" or value else [*lower, Instruction(LOAD, at + 4), Instruction(JUMP_EQUAL, 0)]


def action(word: str) -> Code:
    """Ends the program. A call that is pretended is not made, and its caller hears that it was."""
    return [Instruction(RETURN, {"allow": ALLOW, "kill": KILL, "pretend": ERRNO}.get(word) or ERRNO | getattr(errno, word))]
