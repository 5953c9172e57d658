"""Finds the C++ compiler and runs it in a sandbox with limits; a time-out kills it and all its child processes."""

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
FORWARDED_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "SDKROOT", "DEVELOPER_DIR")
"""Environment variables that a compiler may need to find its own parts."""
MEMORY_BYTES, FILE_BYTES = 4 << 30, 512 << 20
HARDENING_FLAGS = "-Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code,-z,text"
"""Linker options: loader tables are read-only and constants are not executable."""
HEADER, HEADER_S = "base.h", 60.0
KILL_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU)
"""Signals from outside; with any other, a compiler that runs as one process has crashed."""


class CompilerRun(NamedTuple):
    """Exit code and output of a compiler run."""

    code: int
    text: str
    timed_out: bool = False

    @property
    def is_killed(self) -> bool:
        """Whether another process killed the compiler driver or a program it started."""
        is_signalled = -self.code in KILL_SIGNALS
        return not self.timed_out and (is_signalled or bool(re.search(r"Killed signal terminated|terminated with signal 9\b", self.text)))


def find_compiler(compiler: str) -> str | None:
    """Returns the path of the compiler that builds will use, or None if there is none."""
    for name in [compiler] if compiler else [os.environ.get("CXX", ""), "g++", "clang++"]:
        if name and (path := shutil.which(name)):
            return path
    return None


def missing_compiler_message(compiler: str) -> str | None:
    """Explains how to install a compiler; None if one is there."""
    if find_compiler(compiler):
        return None
    if compiler:
        return f"there is no C++ compiler '{compiler}'; install it or set backend.compiler to an installed one"
    return "there is no C++ compiler; install g++ (apt install g++) or set backend.compiler"


@lru_cache
def compiler_version_text(path: str) -> str:
    """Returns the complete output of `compiler --version`."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
    try:
        version_run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, env=environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InfraError(f"{path} --version: {error}") from error
    if version_run.returncode < 0:
        raise InfraError(f"{path} --version was killed")
    return version_run.stdout


def compiler_version(path: str) -> str:
    """Returns the first line of `compiler --version`."""
    return (compiler_version_text(path).splitlines() or [Path(path).name])[0]


@lru_cache
def processor_name() -> str:
    """Returns the processor's name as far as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(reversed([[part.strip() for part in line.split(":", 1)] for line in lines if ":" in line]))
    part = " ".join(fields[key] for key in ("CPU implementer", "CPU part") if key in fields)
    return fields.get("model name") or f"{platform.machine()} {part}".strip()


def run_compiler(path: str, arguments: Sequence[str], workdir: Path, timeout_s: float, readable: Iterable[Path] = ()) -> CompilerRun:
    """Runs the compiler inside `workdir`, which is its temporary folder and the only folder it can write to.

    It can read its own parts, the precompiled headers and the folders in `readable`.
    """
    limits = {"RLIMIT_CPU": int(timeout_s) + 5, "RLIMIT_FSIZE": FILE_BYTES, "RLIMIT_AS": MEMORY_BYTES, "RLIMIT_NOFILE": 1024}
    readable_paths = [str(paths.cache_folder() / "headers"), *map(str, readable)]
    sandbox_profile = profiles.plan_compiler(path, readable_paths, str(workdir), FORWARDED_VARIABLES[1:], limits)
    forwarded = {name: os.environ[name] for name in FORWARDED_VARIABLES if name in os.environ}
    environment = {"PATH": os.defpath, **forwarded, "LC_ALL": "C", "TMPDIR": str(workdir), "HOME": str(workdir)}
    try:
        process = subprocess.Popen(
            exec_compiler.make_sandboxed_command(sandbox_profile, [path, *arguments], os.getpid()),
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
        if process.returncode == exec_compiler.SANDBOX_FAILED:
            raise InfraError(text[-500:].strip())
        return CompilerRun(process.returncode, text)
    except subprocess.TimeoutExpired:
        return CompilerRun(-signal.SIGKILL, "", timed_out=True)
    finally:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and every process in its group."""
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
    return "Free Software Foundation" in compiler_version_text(path)


def precompiled(path: str, options: Sequence[str], text: str, readable: Sequence[Path] = (), contents: str = "") -> str | None:
    """Precompiles a header with this text once per machine, because parsing its includes takes longer than most compilations. GCC only.

    If it includes files of this project, `contents` is a hash of them, and their folders are in `readable`.
    """
    options = [option for option in options if option != "-shared"]
    if not is_gcc(path):
        return None
    folder = paths.cache_folder() / "headers" / cache_key(text, contents, compiler_version_text(path), *options, processor_name())
    try:
        if not (folder / f"{HEADER}.gch").exists():
            with paths.hold_lock(folder / "lock"):  # another process may be compiling it
                if not (folder / f"{HEADER}.gch").exists() and not compile_header(path, options, text, folder, readable):
                    return None
    except OSError as error:
        log.debug("headers are not precompiled: %s", error)
        return None
    return str(folder / HEADER)


def compile_header(path: str, options: Sequence[str], text: str, folder: Path, readable: Sequence[Path]) -> bool:
    """Compiles the header and moves it into the folder atomically."""
    with tempfile.TemporaryDirectory(dir=folder) as building:
        workdir = Path(building)
        (workdir / HEADER).write_text(text)
        if run_compiler(path, [*options, "-w", "-x", "c++-header", HEADER, "-o", f"{HEADER}.gch"], workdir, HEADER_S, readable).code:
            return False
        (workdir / HEADER).replace(folder / HEADER)
        (workdir / f"{HEADER}.gch").replace(folder / f"{HEADER}.gch")
        return True


def cache_key(*parts: str) -> str:
    """Returns a short hash of several texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
