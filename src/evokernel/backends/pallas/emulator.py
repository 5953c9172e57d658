"""Finds an emulator for x86-64 programs on other processors, with the command and settings to run it."""

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

MIN_VERSION = (0, 4, 3)
"""0.3.4 does not run libtpu."""
FIRST_WITH_FACCESSAT = (0, 4, 4)
"""The first box64 that supports every system call libtpu issues; see `compiler_process.c`."""
SYSROOT = Path("/usr/x86_64-linux-gnu")
BOX64 = {
    "BOX64_LOG": "0",
    "BOX64_NOBANNER": "1",
    "BOX64_DYNAREC_CALLRET": "1",  # translate calls and returns together: a third faster
    "BOX64_DYNAREC_STRONGMEM": "1",  # keep the x86 memory order between threads: a tenth slower, and safe
}


@dataclass(frozen=True)
class Emulator:
    """How to run an x86-64 program here."""

    name: str
    version: str
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    caches_translations: bool = False
    """Whether it can store its translations in a folder and load them again."""
    lacks_faccessat: bool = False
    note: str = ""


NATIVE = Emulator("none", "")


def find_emulator() -> Emulator | None:
    """The first that is available: native execution, box64 on the path, our downloaded copy of box64, qemu-user."""
    if libtpu.is_native():
        return NATIVE
    candidates = [[path] if (path := shutil.which("box64")) else [], box64_command()]
    for command in candidates:
        if command and (version := box64_version(tuple(command))) >= MIN_VERSION:
            text = ".".join(map(str, version))
            return Emulator("box64", text, tuple(command), BOX64, True, version < FIRST_WITH_FACCESSAT)
    if (path := shutil.which("qemu-x86_64")) and SYSROOT.is_dir():
        note = f"compiles about fifteen times slower than box64; install box64 with: {libtpu.INSTALL_COMMAND}"
        return Emulator("qemu-x86_64", "", (path, "-L", str(SYSROOT)), note=note)
    return None


def unavailable_reason() -> str | None:
    """The command that installs an emulator, if none is available."""
    return None if find_emulator() else f"libtpu requires an emulator for x86-64 programs, and none is installed: {libtpu.INSTALL_COMMAND}"


def box64_folder() -> Path:
    """Folder of our downloaded copy of box64."""
    return paths.tools_folder() / "box64"


def box64_command() -> list[str]:
    """Command of our downloaded copy of box64; empty if it is not installed.

    It runs with the C library that was downloaded with it, because it may require a newer one than the machine has.
    """
    program = box64_folder() / "usr" / "bin" / "box64"
    loaders = sorted(box64_folder().glob("usr/lib/*/ld-linux-*.so.*"))
    if not program.is_file():
        return []
    return [str(loaders[0]), "--library-path", str(loaders[0].parent), str(program)] if loaders else [str(program)]


@lru_cache
def box64_version(command: tuple[str, ...]) -> tuple[int, ...]:
    """The version that the command reports; (0,) if it reports none."""
    try:
        environment = {"PATH": os.environ.get("PATH", os.defpath), **BOX64}
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=30, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return (0,)
    match = re.search(r"v(\d+)\.(\d+)\.(\d+)", result.stdout + result.stderr)
    return tuple(map(int, match.groups())) if match else (0,)
