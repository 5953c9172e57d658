"""Runs the program of a generator: prompt on standard input, a time limit, and the end of its whole process group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, NamedTuple

from evokernel.core.errors import InfraError
from evokernel.llm.render import one_line

MAX_OUTPUT_BYTES = 4_000_000
MAX_STDERR_BYTES = 2000
EXEC_WITH_PARENT = (
    "import ctypes, os, signal, sys\n"
    "ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n"  # PR_SET_PDEATHSIG
    "os.getppid() == int(sys.argv[1]) and os.execvp(sys.argv[2], sys.argv[2:])\n"
)
"""Becomes a program that the kernel kills when the process that started it ends, even if that was killed itself. Linux only."""


class ProgramResult(NamedTuple):
    """What a program wrote and how it ended."""

    stdout: str
    code: int | None
    """Exit code; None if it was killed at its time limit."""
    stderr: str
    """The end of its standard error as `; stderr: …`, to append to a message; empty if it wrote none."""


def run_program(
    words: Sequence[str], *, stdin: str, cwd: str | None, env: Mapping[str, str], timeout_s: float, ends_with_us: bool = False
) -> ProgramResult:
    """Run a program until it ends or its time is over; then kill its process group. Raises InfraError if it cannot be started.

    It uses files instead of pipes: a grandchild that keeps a pipe open could block forever.
    """
    wrapped = [sys.executable, "-I", "-S", "-c", EXEC_WITH_PARENT, str(os.getpid()), *words]
    with tempfile.TemporaryFile() as input, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        input.write(stdin.encode())
        input.seek(0)
        try:
            process = subprocess.Popen(
                wrapped if ends_with_us and sys.platform == "linux" else words,
                stdin=input,
                stdout=output,
                stderr=errors,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            raise InfraError(f"{words[0]} could not be started: {error.strerror or error}") from error
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            kill_process_group(process)
        output.seek(0)
        return ProgramResult(output.read(MAX_OUTPUT_BYTES).decode("utf-8", "replace"), code, stderr_tail(errors))


def kill_process_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and its children, if they are still running."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def stderr_tail(stderr: IO[bytes]) -> str:
    """The end of the program's standard error, to append to a message."""
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(0, size - MAX_STDERR_BYTES))
    text = one_line(stderr.read().decode("utf-8", "replace"), MAX_STDERR_BYTES)
    return f"; stderr: {text[-500:]}" if text else ""
