"""Finds the compiler, and runs it where it can do no harm: limited, timed, killed with all its children."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core import folders
from evokernel.core.errors import InfraError
from evokernel.jail import launch, plans

log = logging.getLogger(__name__)
FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
)
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "SDKROOT", "DEVELOPER_DIR")
"""What a compiler may need to find its own parts."""
MEMORY_BYTES, FILE_BYTES = 4 << 30, 512 << 20
HEADERS = ("cstdint", "cstddef", "cmath", "cstring", "algorithm")


class Compiled(NamedTuple):
    """How a compiler run ended."""

    code: int
    text: str
    timed_out: bool = False

    @property
    def is_killed(self) -> bool:
        """Ended by someone else: the driver itself, or a program it started."""
        return not self.timed_out and (self.code < 0 or bool(re.search(r"Killed signal terminated|terminated with signal 9\b", self.text)))


def find(compiler: str) -> str | None:
    """The compiler that will be used, or None."""
    for name in [compiler] if compiler else [os.environ.get("CXX", ""), "g++", "clang++"]:
        if name and (path := shutil.which(name)):
            return path
    return None


def missing(compiler: str) -> str | None:
    """Words that name the fix when there is no compiler."""
    if find(compiler):
        return None
    if compiler:
        return f"no C++ compiler called '{compiler}': install it or set backend.compiler to one that exists"
    return "no C++ compiler: install g++ (apt install g++) or set backend.compiler"


@lru_cache
def version_text(path: str) -> str:
    """All that the compiler says about itself."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfraError(f"{path} --version: {error}") from error
    if done.returncode < 0:
        raise InfraError(f"{path} --version was killed")
    return done.stdout


def version(path: str) -> str:
    """The compiler's first line about itself."""
    return (version_text(path).splitlines() or [Path(path).name])[0]


@lru_cache
def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    part = " ".join(found[key] for key in ("CPU implementer", "CPU part") if key in found)
    return found.get("model name") or f"{platform.machine()} {part}".strip()


def compile(path: str, arguments: Sequence[str], workdir: Path, timeout_s: float) -> Compiled:
    """Runs the compiler inside `workdir`, which is also its temporary folder, and the only one it can write to."""
    limits = {"RLIMIT_CPU": int(timeout_s) + 5, "RLIMIT_FSIZE": FILE_BYTES, "RLIMIT_AS": MEMORY_BYTES, "RLIMIT_NOFILE": 1024}
    jail = plans.compiler(path, [str(folders.cache() / "headers")], str(workdir), PASSED_ON[1:], limits)
    given = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment = {"PATH": os.defpath, **given, "LC_ALL": "C", "TMPDIR": str(workdir), "HOME": str(workdir)}
    try:
        process = subprocess.Popen(
            launch.command(jail, [path, *arguments], os.getpid()),
            cwd=workdir,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError as error:
        raise InfraError(f"cannot start {path}: {error}") from error
    try:
        output, _ = process.communicate(timeout=timeout_s)
        text = output.decode(errors="replace")
        if process.returncode == launch.CANNOT:
            raise InfraError(text[-500:].strip())
        return Compiled(process.returncode, text)
    except subprocess.TimeoutExpired:
        return Compiled(-signal.SIGKILL, "", timed_out=True)
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and whatever it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # all gone already
    except PermissionError:
        process.kill()  # macOS, when only zombies are left
    process.wait()
    if process.stdout:
        process.stdout.close()


def precompiled(path: str, options: Sequence[str]) -> str | None:
    """A header with the standard ones in it, compiled once per machine: reading them takes longer than most kernels. GCC only."""
    options = [option for option in options if option != "-shared"]
    if "Free Software Foundation" not in version_text(path):
        return None
    text = "".join(f"#include <{name}>\n" for name in HEADERS)
    key = hashlib.sha256("\0".join([text, version_text(path), *options, processor()]).encode()).hexdigest()[:16]
    folder = folders.cache() / "headers" / key
    try:
        if not (folder / "base.h.gch").exists():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as building:
                workdir = Path(building)
                (workdir / "base.h").write_text(text)
                done = compile(path, [*options, "-w", "-x", "c++-header", "base.h", "-o", "base.h.gch"], workdir, 60.0)
                if done.code:
                    return None
                (workdir / "base.h").replace(folder / "base.h")
                (workdir / "base.h.gch").replace(folder / "base.h.gch")
    except OSError as error:
        log.debug("headers are not precompiled: %s", error)
        return None
    return str(folder / "base.h")
