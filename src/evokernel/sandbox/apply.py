"""Puts the process that calls it into a jail, layer by layer, from a plan that the judge made. Nothing heavy is imported here."""

from __future__ import annotations

import os
import sys

from evokernel.sandbox import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes as long as entering
    from collections.abc import Collection

    from evokernel.sandbox.profiles import Plan


def enter(plan: Plan, kept: Collection[int]) -> None:
    """All layers the plan names; the descriptors in `kept` stay open. An OSError when one of them cannot be had: nobody may go on then."""
    if sys.platform == "linux":
        syscalls.close_all_but(kept)
        if flags := plan.get("namespaces"):
            syscalls.unshare(flags)
    syscalls.limit(limits(plan))
    if sys.platform == "linux":
        if "privileges" in plan:
            syscalls.drop_privileges(plan["privileges"])
        if rules := plan.get("landlock"):
            syscalls.landlock(rules)
        if filters := plan.get("seccomp"):
            syscalls.seccomp(filters[0], bytes.fromhex(filters[1]))


def enter_after_loading(plan: Plan) -> None:
    """The second filter, where the plan has one: no more files, no more code."""
    filters = plan.get("seccomp", ())
    if len(filters) > 2:
        syscalls.seccomp(filters[0], bytes.fromhex(filters[2]))


def limits(plan: Plan) -> dict[str, int]:
    """The plan's, with memory counted on top of what is mapped already."""
    wanted = dict(plan.get("limits", {}))
    if "more_memory" in plan and sys.platform == "linux":
        with open("/proc/self/statm") as file:
            wanted["RLIMIT_AS"] = int(file.read().split()[0]) * os.sysconf("SC_PAGESIZE") + plan["more_memory"]
    return wanted
