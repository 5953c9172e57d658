"""Tries to remove its limits, then allocates memory."""

import resource

for name in ("RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NPROC", "RLIMIT_CPU"):
    try:
        resource.setrlimit(getattr(resource, name), (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        continue
held = []
for _ in range(48):
    held.append(bytearray(b"x") * (1 << 26))
