"""Puts the calling process into a sandbox, layer by layer, from a plan that the verifier made. Imports nothing heavy."""

from __future__ import annotations

import os
import sys

from evokernel.sandbox import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes as long as entering the sandbox
    from collections.abc import Collection

    from evokernel.sandbox.profiles import SandboxPlan


def enter_sandbox(plan: SandboxPlan, kept_descriptors: Collection[int]) -> None:
    """Apply all layers of the plan; the descriptors in `kept_descriptors` stay open. Raise OSError if a layer fails: the process must then
    stop."""
    if sys.platform == "linux":
        syscalls.close_other_descriptors(kept_descriptors)
        if flags := plan.get("namespaces"):
            syscalls.unshare(flags)
    syscalls.set_limits(compute_limits(plan))
    if sys.platform == "linux":
        if "privileges" in plan:
            syscalls.drop_privileges(plan["privileges"])
        if rules := plan.get("landlock"):
            syscalls.apply_landlock(rules)
        if filters := plan.get("seccomp"):
            syscalls.apply_seccomp(filters[0], bytes.fromhex(filters[1]))


def restrict_after_loading(plan: SandboxPlan) -> None:
    """Install the second filter if the plan has one: no more files, no more executable memory."""
    filters = plan.get("seccomp", ())
    if len(filters) > 2:
        syscalls.apply_seccomp(filters[0], bytes.fromhex(filters[2]))


def compute_limits(plan: SandboxPlan) -> dict[str, int]:
    """Return the plan's limits; the memory limit is added to the memory that is already mapped."""
    limits = dict(plan.get("limits", {}))
    if "extra_memory_bytes" in plan and sys.platform == "linux":
        with open("/proc/self/statm") as file:
            limits["RLIMIT_AS"] = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE") + plan["extra_memory_bytes"]
    return limits
