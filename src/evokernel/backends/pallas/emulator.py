"""Finds a program that runs x86-64 code on other processors, and says how it wants to be run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from evokernel.backends.pallas import libtpu
from evokernel.core import paths

OLDEST = (0, 4, 3)
"""0.3.4 does not run libtpu."""
KNOWS_ACCESS = (0, 4, 4)
"""The first box64 that knows every system call libtpu issues; see `driver.c`."""
SYSROOT = Path("/usr/x86_64-linux-gnu")
BOX64 = {
    "BOX64_LOG": "0",
    "BOX64_NOBANNER": "1",
    "BOX64_DYNAREC_CALLRET": "1",  # calls and returns are translated together: a third faster
    "BOX64_DYNAREC_STRONGMEM": "1",  # keeps the order in which x86 lets threads see writes: a tenth slower, and safe
}


@dataclass(frozen=True)
class Emulator:
    """How to run an x86-64 program here."""

    name: str
    version: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    keeps_translations: bool = False
    """Can write what it translated into a folder and read it again."""
    lacks_access: bool = False
    note: str = ""


NATIVE = Emulator("none", "")


def find() -> Emulator | None:
    """The first that is there: none needed, box64 on the path, our own copy of it, qemu-user."""
    if libtpu.is_native():
        return NATIVE
    candidates = [[path] if (path := shutil.which("box64")) else [], private()]
    for command in candidates:
        if command and (version := box64_version(tuple(command))) >= OLDEST:
            text = ".".join(map(str, version))
            return Emulator("box64", text, tuple(command), BOX64, True, version < KNOWS_ACCESS)
    if (path := shutil.which("qemu-x86_64")) and SYSROOT.is_dir():
        note = f"compiles about fifteen times slower than box64 would: {libtpu.INSTALL}"
        return Emulator("qemu-x86_64", "", (path, "-L", str(SYSROOT)), note=note)
    return None


def missing() -> str | None:
    """Words that name the fix when there is none."""
    return None if find() else f"no emulator for x86-64 programs, in which libtpu runs: {libtpu.INSTALL}"


def home() -> Path:
    """Where our own copy is unpacked."""
    return paths.tools_folder() / "box64"


def private() -> list[str]:
    """How our own copy is run: with the C library unpacked next to it, since it may want a newer one than the machine's."""
    program = home() / "usr" / "bin" / "box64"
    loaders = sorted(home().glob("usr/lib/*/ld-linux-*.so.*"))
    if not program.is_file():
        return []
    return [str(loaders[0]), "--library-path", str(loaders[0].parent), str(program)] if loaders else [str(program)]


@lru_cache
def box64_version(command: tuple[str, ...]) -> tuple[int, ...]:
    """What it says of itself; zeros when it says nothing."""
    try:
        environment = {"PATH": os.environ.get("PATH", os.defpath), **BOX64}
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=30, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return (0,)
    found = re.search(r"v(\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr)
    return tuple(map(int, found.groups())) if found else (0,)
