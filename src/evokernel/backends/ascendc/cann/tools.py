"""Runs a tool of CANN with limits and a timeout, in a sandbox that can read the toolkit, and kills it with all its child processes.

Building runs code of the candidate: CANN loads the operator's definition to generate its interface. The sandbox is that of a compiler with
additional system calls, because these tools copy times and owners of files and compile in several communicating processes.
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
SHARED_MEMORY = "/dev/shm"
"""Location of Python's semaphores; the toolkit compiles kernels in several processes."""
DEVICES = ("davinci*", "devmm_svm", "hisi_hdc", "svm*", "dvpp_cmdlist")
"""NPUs, their manager and the driver's device files in /dev."""
BUILD_FOLDER_RIGHTS = allowed_paths.MODIFY | allowed_paths.RUN | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13
"""A build folder may also have links, pipes and sockets, and files may move between its folders."""
QUERY_TIMEOUT_S = 30
QUOTED_CHARS = 400
"""Characters of a tool's output that an error message quotes."""


class ToolResult(NamedTuple):
    """Exit code and output of a tool."""

    code: int
    text: str
    timed_out: bool = False

    @property
    def is_killed(self) -> bool:
        """Whether another process killed the tool or a program that it started."""
        return not self.timed_out and (self.code in (-signal.SIGKILL, 128 + signal.SIGKILL) or "signal terminated program" in self.text)


def run_tool(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    readable_paths: Iterable[str] = (),
    writable: Path | None = None,
    sandboxed: bool = True,
    uses_npu: bool = False,
) -> ToolResult:
    """Run a command in `cwd`. It can write to `writable` (else `cwd`), and read the system, Python, its own folders and `readable_paths`.

    `uses_npu` allows it to open the NPU's device files. Without the sandbox it still has a timeout and is killed with its child processes.
    """
    environment = add_python_to_path(environment)
    words = (
        sandbox_command(command, writable or cwd, environment, timeout_s, readable_paths, npu_device_files() if uses_npu else None)
        if sandboxed
        else list(command)
    )
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
        raise InfraError(f"Cannot start {Path(command[0]).name}: {error.strerror}") from error
    try:
        output, _ = process.communicate(timeout=timeout_s)
        text = output.decode(errors="replace")
        if process.returncode == exec_compiler.SANDBOX_FAILED:
            raise InfraError(text[-QUOTED_CHARS:].strip())
        return ToolResult(process.returncode, text)
    except subprocess.TimeoutExpired as late:
        return ToolResult(-signal.SIGKILL, (late.output or b"").decode(errors="replace"), timed_out=True)
    finally:
        kill_group(process)


def add_python_to_path(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the real interpreter first in PATH, if `python3` is a script of a version manager."""
    path = environment.get("PATH", "")
    python = shutil.which("python3", path=path)
    return dict(environment) | ({"PATH": f"{folder}{os.pathsep}{path}"} if python and (folder := interpreter_folder(python)) else {})


@lru_cache
def interpreter_folder(python: str) -> str | None:
    """The folder of the interpreter that a script named python3 starts; None if it is not such a script."""
    command = [python, "-c", "import sys; print(sys.executable)"]
    try:
        with open(python, "rb") as file:
            if file.read(2) != b"#!":
                return None
        process = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return str(Path(process.stdout.strip()).parent) if process.stdout.strip() else None


def npu_device_files() -> list[str]:
    """The NPU's device files on this machine."""
    return [str(path) for pattern in DEVICES for path in sorted(Path("/dev").glob(pattern))]


def sandbox_command(
    command: Sequence[str],
    writable: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    readable_paths: Iterable[str],
    device_files: Sequence[str] | None,
) -> list[str]:
    """The command inside the toolkit's sandbox, or inside the profiler's sandbox if there are device files."""
    limits = {"RLIMIT_CPU": int(timeout_s * (os.cpu_count() or 1)) + 5, "RLIMIT_FSIZE": FILE_BYTES}
    rights = allowed_paths.READ | allowed_paths.LIST | allowed_paths.RUN
    rules = [
        (str(Path(str(evokernel.__file__)).parent.parent), allowed_paths.LIST),  # the worker imports this package inside the sandbox
        *allowed_paths.list_program_paths(shutil.which("python3", path=environment.get("PATH")) or sys.executable),
        *(
            (path, rights)
            for name in ("ASCEND_HOME_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PATH")
            for path in folders_in_variable(environment, name)
        ),
        *((path, rights) for path in readable_paths),
        (SHARED_MEMORY, allowed_paths.MODIFY),
        (str(writable), BUILD_FOLDER_RIGHTS),
    ]
    profile = "toolkit" if device_files is None else "profiler"
    return exec_compiler.make_sandboxed_command(
        profiles.plan_toolkit(profile, command[0], rules, device_files or (), limits), list(command), os.getpid()
    )


def folders_in_variable(environment: Mapping[str, str], name: str) -> list[str]:
    """The absolute folders in a path variable."""
    return [path for path in environment.get(name, "").split(os.pathsep) if os.path.isabs(path)]
