"""Makes the sandbox plan for each kind of process on this machine. The verifier makes the plan; the process itself applies it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from evokernel.core.errors import UserError
from evokernel.sandbox import allowed_paths, layers, probe, syscall_filter
from evokernel.sandbox.allowed_paths import DEVICE, LIST, MODIFY, READ, RUN, PathRule

SandboxPlan = dict[str, Any]
"""Plain values that can be sent to the process that applies them."""
READ_CAPABILITIES, WRITE_CAPABILITIES = 1 << 2, 1 << 1
"""The capabilities that let root read, and write, files that other users keep closed."""
MAX_PROCESSES = 1024
"""Processes and threads of a user who is not root."""
MAX_OPEN_FILES = 4096
"""For device runtimes and vendor tools."""
PINNED_MEMORY_LIMITS = ("RLIMIT_MEMLOCK",)
"""Device runtimes pin the memory that they copy from."""
BASE_LIMITS = {
    "RLIMIT_CORE": 0,
    "RLIMIT_NOFILE": 64,
    "RLIMIT_MEMLOCK": 0,
    "RLIMIT_MSGQUEUE": 0,
    "RLIMIT_RTPRIO": 0,
    "RLIMIT_NICE": 0,
    "RLIMIT_SIGPENDING": 256,
}


def make_plan(profiles: Sequence[str], limits: dict[str, int], rules: Iterable[PathRule], unlimited: Iterable[str] = ()) -> SandboxPlan:
    """Return a plan with every layer that is active here. The filter of the first profile applies at once, a second one after loading.

    Limits named in `unlimited` are not set.
    """
    active_layers, plan = layers.get_active_layers(), SandboxPlan()
    if "limits" in active_layers:
        # In its own user namespace, other processes of the user do not count.
        process_limit = {"RLIMIT_NPROC": MAX_PROCESSES} if "user" in active_layers.get("namespaces", "") else {}
        plan["limits"] = {name: value for name, value in (BASE_LIMITS | process_limit | limits).items() if name not in unlimited}
    rules = list(dict.fromkeys(rules))
    capabilities = find_needed_capabilities(rules)
    if "namespaces" in active_layers:
        plan["namespaces"] = probe.ISOLATED if capabilities else probe.NAMESPACES[active_layers["namespaces"]]
    if "privileges" in active_layers:
        plan["privileges"] = capabilities
    if "landlock" in active_layers:
        plan["landlock"] = rules
    if "seccomp" in active_layers:
        programs = [(syscall_filter.compile_filter(profile) or b"").hex() for profile in profiles]
        plan["seccomp"] = (layers.get_seccomp_number(), *programs)
    if ("landlock" in plan or "seccomp" in plan) and "privileges" not in plan:
        raise UserError(f"{layers.VARIABLE} disables 'privileges', but landlock and seccomp need it: disable them as well")
    return plan


def find_needed_capabilities(rules: Iterable[PathRule]) -> int:
    """Return the capabilities that root needs to reach the paths of the rules; other users need none."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return 0
    rules = list(rules)
    needs_write = any(rights & DEVICE == DEVICE and allowed_paths.is_restricted_device(path) for path, rights in rules)
    return (READ_CAPABILITIES if any(allowed_paths.is_behind_closed_folder(path) for path, _ in rules) else 0) | (
        WRITE_CAPABILITIES if needs_write else 0
    )


def plan_kernel(backend: object, readable: Iterable[str], threads: int, limits: dict[str, int]) -> SandboxPlan:
    """Plan for a process that runs a candidate's compiled code: it can write no file."""
    rules = [*allowed_paths.list_system_paths(), *allowed_paths.list_python_paths(backend), *((path, READ | LIST) for path in readable)]
    return make_plan(("threaded" if threads > 1 else "kernel", "kernel_loaded"), limits, rules)


def plan_interpreter(backend: object, readable: Iterable[str], writable: str, limits: dict[str, int]) -> SandboxPlan:
    """Plan for a process that traces, interprets or runs under a sanitizer: it can write to one folder."""
    rules = [*allowed_paths.list_system_paths(), *allowed_paths.list_python_paths(backend), *((path, READ | LIST) for path in readable)]
    return make_plan(("interpreter",), limits, [*rules, (writable, MODIFY)])


def plan_compiler(program: str, readable: Iterable[str], writable: str, variables: Iterable[str], limits: dict[str, int]) -> SandboxPlan:
    """Plan for a compiler and the programs it starts: they can write to one folder."""
    rules = [
        *allowed_paths.list_system_paths(READ | LIST | RUN),
        *allowed_paths.list_program_paths(program),
        *allowed_paths.list_variable_paths(variables),
    ]
    return make_plan(("compiler",), limits, [*rules, *((path, READ | LIST | RUN) for path in readable), (writable, MODIFY)])


def plan_toolkit(profile: str, program: str, rules: Iterable[PathRule], devices: Sequence[str], limits: dict[str, int]) -> SandboxPlan:
    """Plan for vendor tools and the programs they start: profile `toolkit` builds, profile `profiler` profiles a process on a device."""
    allowed_rules = [
        *allowed_paths.list_system_paths(READ | LIST | RUN),
        *allowed_paths.list_python_paths(),
        *allowed_paths.list_program_paths(program),
        *rules,
    ]
    all_rules = [*allowed_rules, *((path, DEVICE) for path in devices)]
    return make_plan((profile,), {"RLIMIT_NOFILE": MAX_OPEN_FILES} | limits, all_rules, PINNED_MEMORY_LIMITS if devices else ())


def plan_driver(limits: dict[str, int]) -> SandboxPlan:
    """Plan for our own process with a candidate's device code and none of its host code: the device driver needs unrestricted calls."""
    plan = make_plan(("device",), {"RLIMIT_NOFILE": MAX_OPEN_FILES} | limits, (), PINNED_MEMORY_LIMITS)
    return {layer: value for layer, value in plan.items() if layer not in ("landlock", "seccomp")}


def plan_device_kernel(
    backend: object, readable: Iterable[str], writable: str, devices: Iterable[str], limits: dict[str, int]
) -> SandboxPlan:
    """Plan for a process that runs a candidate on a device with the vendor's runtime: it can write to one folder and to the device."""
    rules = [*allowed_paths.list_system_paths(), *allowed_paths.list_python_paths(backend), *((path, READ | LIST) for path in readable)]
    device_rules = [*((path, DEVICE) for path in devices), (writable, MODIFY)]
    return make_plan(("device",), {"RLIMIT_NOFILE": MAX_OPEN_FILES} | limits, [*rules, *device_rules], PINNED_MEMORY_LIMITS)
