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
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from evokernel.core import paths
from evokernel.core.errors import InfraError
from evokernel.sandbox import exec_compiler, profiles

log = logging.getLogger(__name__)
PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "SDKROOT", "DEVELOPER_DIR")
"""What a compiler may need to find its own parts."""
MEMORY_BYTES, FILE_BYTES = 4 << 30, 512 << 20
HARDENED = "-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,-z,text"
"""Tables of the loader cannot be written, constants cannot be executed."""
HEADER, HEADER_S = "base.h", 60.0


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


def compile(path: str, arguments: Sequence[str], workdir: Path, timeout_s: float, readable: Iterable[Path] = ()) -> Compiled:
    """Runs the compiler inside `workdir`, which is also its temporary folder, and the only one it can write to.

    Besides its own parts it sees what was precompiled, and the folders in `readable`.
    """
    limits = {"RLIMIT_CPU": int(timeout_s) + 5, "RLIMIT_FSIZE": FILE_BYTES, "RLIMIT_AS": MEMORY_BYTES, "RLIMIT_NOFILE": 1024}
    seen = [str(paths.cache_folder() / "headers"), *map(str, readable)]
    jail = profiles.compiler(path, seen, str(workdir), PASSED_ON[1:], limits)
    given = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment = {"PATH": os.defpath, **given, "LC_ALL": "C", "TMPDIR": str(workdir), "HOME": str(workdir)}
    try:
        process = subprocess.Popen(
            exec_compiler.command(jail, [path, *arguments], os.getpid()),
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
        if process.returncode == exec_compiler.CANNOT:
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


def is_gcc(path: str) -> bool:
    return "Free Software Foundation" in version_text(path)


def precompiled(path: str, options: Sequence[str], text: str, readable: Sequence[Path] = (), contents: str = "") -> str | None:
    """A header with this text, compiled once per machine: reading what it includes takes longer than most kernels. GCC only.

    Where it includes files that change with us, `contents` is a hash of them; their folders are among `readable`.
    """
    options = [option for option in options if option != "-shared"]
    if not is_gcc(path):
        return None
    folder = paths.cache_folder() / "headers" / key_of(text, contents, version_text(path), *options, processor())
    try:
        if not (folder / f"{HEADER}.gch").exists():
            with paths.hold_lock(folder / "lock"):  # for whoever comes while another compiles it
                if not (folder / f"{HEADER}.gch").exists() and not compile_header(path, options, text, folder, readable):
                    return None
    except OSError as error:
        log.debug("headers are not precompiled: %s", error)
        return None
    return str(folder / HEADER)


def compile_header(path: str, options: Sequence[str], text: str, folder: Path, readable: Sequence[Path]) -> bool:
    """Leaves it in the folder, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=folder) as building:
        workdir = Path(building)
        (workdir / HEADER).write_text(text)
        if compile(path, [*options, "-w", "-x", "c++-header", HEADER, "-o", f"{HEADER}.gch"], workdir, HEADER_S, readable).code:
            return False
        (workdir / HEADER).replace(folder / HEADER)
        (workdir / f"{HEADER}.gch").replace(folder / f"{HEADER}.gch")
        return True


def key_of(*parts: str) -> str:
    """A short name for what these texts say together."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
