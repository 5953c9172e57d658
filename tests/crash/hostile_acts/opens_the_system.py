"""Opens system control files, without writing to them."""

import os

from hostile_tools import harm

for path in (
    "/proc/sys/kernel/core_pattern",
    "/proc/sysrq-trigger",
    f"/proc/{os.getppid()}/oom_score_adj",
    f"/proc/{os.getppid()}/mem",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/dev/mem",
    "/dev/kmsg",
):
    try:
        os.close(os.open(path, os.O_WRONLY))
    except OSError:
        continue
    harm(f"{path} could be written")
