"""What the jail of each kind of process is made of, on this machine. Made by the judge, carried out by the process itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from evokernel.core.errors import UserError
from evokernel.jail import filters, layers, places, probe
from evokernel.jail.places import CHANGE, LIST, READ, RUN, Rule

Plan = dict[str, Any]
"""Plain values, to be sent to the process that carries it out."""
READ_ANY = 1 << 2
"""The capability that lets root read what others keep closed."""
PROCESSES = 1024
"""And threads, of a user who is not root."""
ALWAYS = {
    "RLIMIT_CORE": 0,
    "RLIMIT_NOFILE": 64,
    "RLIMIT_MEMLOCK": 0,
    "RLIMIT_MSGQUEUE": 0,
    "RLIMIT_RTPRIO": 0,
    "RLIMIT_NICE": 0,
    "RLIMIT_SIGPENDING": 256,
}


def plan(profiles: Sequence[str], limits: dict[str, int], rules: Iterable[Rule]) -> Plan:
    """Every layer that holds here. The first profile's filter is put on at once, a second one after loading."""
    held, made = layers.holding(), Plan()
    if "limits" in held:
        own = {"RLIMIT_NPROC": PROCESSES} if "user" in held.get("namespaces", "") else {}  # counts nobody else's there
        made["limits"] = ALWAYS | own | limits
    rules = list(dict.fromkeys(rules))
    kept = READ_ANY if hasattr(os, "geteuid") and os.geteuid() == 0 and any(places.is_out_of_reach(path) for path, _ in rules) else 0
    if "namespaces" in held:
        made["namespaces"] = probe.OWN if kept else probe.NAMESPACES[held["namespaces"]]
    if "privileges" in held:
        made["privileges"] = kept
    if "landlock" in held:
        made["landlock"] = rules
    if "seccomp" in held:
        programs = [(filters.program(profile) or b"").hex() for profile in profiles]
        made["seccomp"] = (layers.number(), *programs)
    if ("landlock" in made or "seccomp" in made) and "privileges" not in made:
        raise UserError(f"{layers.VARIABLE}: landlock and seccomp need the layer 'privileges'")
    return made


def kernel(backend: object, readable: Iterable[str], threads: int, limits: dict[str, int]) -> Plan:
    """For a process that runs machine code of a candidate: it can write nothing."""
    seen = [*places.of_the_system(), *places.of_python(backend), *((path, READ | LIST) for path in readable)]
    return plan(("threaded" if threads > 1 else "kernel", "loaded"), limits, seen)


def interpreter(backend: object, readable: Iterable[str], writable: str, limits: dict[str, int]) -> Plan:
    """For a process that traces or interprets, or runs under a sanitizer: it can write into one folder."""
    seen = [*places.of_the_system(), *places.of_python(backend), *((path, READ | LIST) for path in readable)]
    return plan(("interpreter",), limits, [*seen, (writable, CHANGE)])


def compiler(program: str, readable: Iterable[str], writable: str, variables: Iterable[str], limits: dict[str, int]) -> Plan:
    """For a compiler and the programs it starts: they can write into one folder."""
    seen = [*places.of_the_system(READ | LIST | RUN), *places.of_a_program(program), *places.of_variables(variables)]
    return plan(("compiler",), limits, [*seen, *((path, READ | LIST | RUN) for path in readable), (writable, CHANGE)])
