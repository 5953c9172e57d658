"""Reads the user's secret through every path that leads to it."""

import os

from hostile_tools import harm, place

path = place("home/.keys/secret")
parent = os.getppid()
for name in (
    path,
    f"/proc/{parent}/root{path}",
    f"/proc/self/root{path}",
    f"/proc/{parent}/environ",
    f"/proc/{parent}/cwd/home/.keys/secret",
):
    try:
        with open(name, "rb") as file:
            found = file.read(1 << 16)
    except OSError:
        continue
    if name.endswith("environ") and b"HOSTILE_SECRET" not in found:
        continue
    harm(f"{name} says {found[-80:]!r}")
