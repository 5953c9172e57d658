"""Runs a tool of CANN where it can do little harm: limited, timed, killed with all its children, in a jail that sees the toolkit.

Building runs code of the candidate: the operator's definition is loaded to write the interface for it. The jail is that of a compiler,
with a few more system calls: these tools copy times and owners of files, and compile in several processes that talk to each other.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import evokernel
from evokernel.backends.native.toolchain import kill_group
from evokernel.core.errors import InfraError
from evokernel.sandbox import allowed_paths, exec_compiler, profiles

FILE_BYTES = 1 << 30
SHARED = "/dev/shm"
"""Where Python's semaphores live; the toolkit compiles kernels in several processes."""
DEVICES = ("davinci*", "devmm_svm", "hisi_hdc", "svm*", "dvpp_cmdlist")
"""In /dev: cards, their manager, and the driver's ways to them."""
ANYTHING = allowed_paths.CHANGE | allowed_paths.RUN | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13
"""In the folder of a build there may also be links, pipes and sockets, and files may move between its folders."""
ASKED_S = 30
LAST = 400
"""Characters of what a tool said that an error of ours quotes."""


class Ran(NamedTuple):
    """How a tool ended."""

    code: int
    text: str
    timed_out: bool = False

    @property
    def is_killed(self) -> bool:
        """By someone else: the tool itself, or a program that it started."""
        return not self.timed_out and (self.code in (-signal.SIGKILL, 128 + signal.SIGKILL) or "signal terminated program" in self.text)


def run(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    seen: Iterable[str] = (),
    writable: Path | None = None,
    jailed: bool = True,
    on_card: bool = False,
) -> Ran:
    """Runs a command in `cwd`. It can write into `writable` (else `cwd`), and see the system, Python, its own folders and `seen`.

    `on_card` lets it open the card's device files. Not jailed, it is still timed and killed with what it started.
    """
    environment = with_python(environment)
    words = jail(command, writable or cwd, environment, timeout_s, seen, devices() if on_card else None) if jailed else list(command)
    try:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    except OSError as error:
        raise InfraError(f"cannot start {Path(command[0]).name}: {error.strerror}") from error
    try:
        output, _ = process.communicate(timeout=timeout_s)
        text = output.decode(errors="replace")
        if process.returncode == exec_compiler.CANNOT:
            raise InfraError(text[-LAST:].strip())
        return Ran(process.returncode, text)
    except subprocess.TimeoutExpired as late:
        return Ran(-signal.SIGKILL, (late.output or b"").decode(errors="replace"), timed_out=True)
    finally:
        kill_group(process)


def with_python(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment, with the interpreter itself on its path where a version manager's script stands for it."""
    path = environment.get("PATH", "")
    found = shutil.which("python3", path=path)
    return dict(environment) | ({"PATH": f"{folder}{os.pathsep}{path}"} if found and (folder := behind(found)) else {})


@lru_cache
def behind(python: str) -> str | None:
    """The folder of the interpreter that a script named python3 starts; None if it is no script, or starts none."""
    command = [python, "-c", "import sys; print(sys.executable)"]
    try:
        with open(python, "rb") as file:
            if file.read(2) != b"#!":
                return None
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASKED_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return str(Path(done.stdout.strip()).parent) if done.stdout.strip() else None


def devices() -> list[str]:
    """The card's device files on this machine."""
    return [str(path) for pattern in DEVICES for path in sorted(Path("/dev").glob(pattern))]


def jail(
    command: Sequence[str],
    writable: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    seen: Iterable[str],
    opened: Sequence[str] | None,
) -> list[str]:
    """The command inside the jail of the toolkit; with device files to be opened, in that of the profiler."""
    limits = {"RLIMIT_CPU": int(timeout_s * (os.cpu_count() or 1)) + 5, "RLIMIT_FSIZE": FILE_BYTES}
    rights = allowed_paths.READ | allowed_paths.LIST | allowed_paths.RUN
    rules = [
        (str(Path(str(evokernel.__file__)).parent.parent), allowed_paths.LIST),  # the worker imports this package inside the jail
        *allowed_paths.of_a_program(shutil.which("python3", path=environment.get("PATH")) or sys.executable),
        *((path, rights) for name in ("ASCEND_HOME_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PATH") for path in named(environment, name)),
        *((path, rights) for path in seen),
        (SHARED, allowed_paths.CHANGE),
        (str(writable), ANYTHING),
    ]
    profile = "toolkit" if opened is None else "measured"
    return exec_compiler.command(profiles.toolkit(profile, command[0], rules, opened or (), limits), list(command), os.getpid())


def named(environment: Mapping[str, str], name: str) -> list[str]:
    """The folders in a variable."""
    return [path for path in environment.get(name, "").split(os.pathsep) if os.path.isabs(path)]
