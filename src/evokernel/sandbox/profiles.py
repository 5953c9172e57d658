"""What the jail of each kind of process is made of, on this machine. Made by the judge, carried out by the process itself."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from evokernel.core.errors import UserError
from evokernel.sandbox import allowed_paths, layers, probe, syscall_filter
from evokernel.sandbox.allowed_paths import CHANGE, DEVICE, LIST, READ, RUN, Rule

Plan = dict[str, Any]
"""Plain values, to be sent to the process that carries it out."""
READ_ANY, WRITE_ANY = 1 << 2, 1 << 1
"""The capabilities that let root read, and write, what others keep closed."""
PROCESSES = 1024
"""And threads, of a user who is not root."""
OPEN_FILES = 4096
"""Of a runtime and of a vendor's tools."""
PINNING = ("RLIMIT_MEMLOCK",)
"""Runtimes of cards pin the memory that they copy from."""
ALWAYS = {
    "RLIMIT_CORE": 0,
    "RLIMIT_NOFILE": 64,
    "RLIMIT_MEMLOCK": 0,
    "RLIMIT_MSGQUEUE": 0,
    "RLIMIT_RTPRIO": 0,
    "RLIMIT_NICE": 0,
    "RLIMIT_SIGPENDING": 256,
}


def plan(profiles: Sequence[str], limits: dict[str, int], rules: Iterable[Rule], unlimited: Iterable[str] = ()) -> Plan:
    """Every layer that holds here. The first profile's filter is put on at once, a second one after loading.

    Limits named in `unlimited` stay as they are.
    """
    held, made = layers.holding(), Plan()
    if "limits" in held:
        own = {"RLIMIT_NPROC": PROCESSES} if "user" in held.get("namespaces", "") else {}  # counts nobody else's there
        made["limits"] = {name: value for name, value in (ALWAYS | own | limits).items() if name not in unlimited}
    rules = list(dict.fromkeys(rules))
    kept = capabilities(rules)
    if "namespaces" in held:
        made["namespaces"] = probe.OWN if kept else probe.NAMESPACES[held["namespaces"]]
    if "privileges" in held:
        made["privileges"] = kept
    if "landlock" in held:
        made["landlock"] = rules
    if "seccomp" in held:
        programs = [(syscall_filter.program(profile) or b"").hex() for profile in profiles]
        made["seccomp"] = (layers.number(), *programs)
    if ("landlock" in made or "seccomp" in made) and "privileges" not in made:
        raise UserError(f"{layers.VARIABLE}: landlock and seccomp need the layer 'privileges'")
    return made


def capabilities(rules: Iterable[Rule]) -> int:
    """What root has to keep to reach the places in the rules; nobody else has anything to keep."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return 0
    rules = list(rules)
    writes = any(rights & DEVICE == DEVICE and allowed_paths.is_closed_device(path) for path, rights in rules)
    return (READ_ANY if any(allowed_paths.is_out_of_reach(path) for path, _ in rules) else 0) | (WRITE_ANY if writes else 0)


def kernel(backend: object, readable: Iterable[str], threads: int, limits: dict[str, int]) -> Plan:
    """For a process that runs machine code of a candidate: it can write nothing."""
    seen = [*allowed_paths.of_the_system(), *allowed_paths.of_python(backend), *((path, READ | LIST) for path in readable)]
    return plan(("threaded" if threads > 1 else "kernel", "loaded"), limits, seen)


def interpreter(backend: object, readable: Iterable[str], writable: str, limits: dict[str, int]) -> Plan:
    """For a process that traces or interprets, or runs under a sanitizer: it can write into one folder."""
    seen = [*allowed_paths.of_the_system(), *allowed_paths.of_python(backend), *((path, READ | LIST) for path in readable)]
    return plan(("interpreter",), limits, [*seen, (writable, CHANGE)])


def compiler(program: str, readable: Iterable[str], writable: str, variables: Iterable[str], limits: dict[str, int]) -> Plan:
    """For a compiler and the programs it starts: they can write into one folder."""
    seen = [*allowed_paths.of_the_system(READ | LIST | RUN), *allowed_paths.of_a_program(program), *allowed_paths.of_variables(variables)]
    return plan(("compiler",), limits, [*seen, *((path, READ | LIST | RUN) for path in readable), (writable, CHANGE)])


def toolkit(profile: str, program: str, rules: Iterable[Rule], devices: Sequence[str], limits: dict[str, int]) -> Plan:
    """For a vendor's tools and whatever they start: `toolkit` builds, `measured` watches a process on a card."""
    seen = [*allowed_paths.of_the_system(READ | LIST | RUN), *allowed_paths.of_python(), *allowed_paths.of_a_program(program), *rules]
    given = [*seen, *((path, DEVICE) for path in devices)]
    return plan((profile,), {"RLIMIT_NOFILE": OPEN_FILES} | limits, given, PINNING if devices else ())


def driver(limits: dict[str, int]) -> Plan:
    """For a process of ours with a candidate's device code and none of its host code: the driver may ask the system for what it wants."""
    made = plan(("card",), {"RLIMIT_NOFILE": OPEN_FILES} | limits, (), PINNING)
    return {layer: value for layer, value in made.items() if layer not in ("landlock", "seccomp")}


def card(backend: object, readable: Iterable[str], writable: str, devices: Iterable[str], limits: dict[str, int]) -> Plan:
    """For a process that runs a candidate on a card, next to the vendor's runtime: it can write into one folder, and to the card."""
    seen = [*allowed_paths.of_the_system(), *allowed_paths.of_python(backend), *((path, READ | LIST) for path in readable)]
    given = [*((path, DEVICE) for path in devices), (writable, CHANGE)]
    return plan(("card",), {"RLIMIT_NOFILE": OPEN_FILES} | limits, [*seen, *given], PINNING)
