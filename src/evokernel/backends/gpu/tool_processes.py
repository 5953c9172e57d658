"""Processes that run recorded programs under one of NVIDIA's tools, started before they are needed: a tool takes a second to start."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from evokernel.core.errors import ToolUnavailable
from evokernel.sandbox import isolated_python

Command = tuple[str, ...]
IDLE: dict[tuple[Command, int], ToolProcess] = {}
"""One process per command and device that waits for its order."""


class ToolProcess:
    """`standalone` under a tool. It runs one order and ends, so that the tool reports everything it found."""

    def __init__(self, command: Command, number: int) -> None:
        self.name = Path(command[0]).name
        standalone = isolated_python.isolated_command("evokernel.backends.gpu.standalone", "main", str(number))
        try:
            self.process = subprocess.Popen(
                [*command, *standalone],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=tempfile.gettempdir(),
                process_group=0,
            )
        except OSError as error:
            raise ToolUnavailable(f"{self.name} cannot be started: {error}") from error

    def run(self, folder: Path, timeout_s: float) -> str:
        """Run the order in a folder; return what the tool printed."""
        try:
            output, _ = self.process.communicate(f"{folder}\n".encode(), timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            self.close()
            raise ToolUnavailable(f"{self.name} did not finish within {timeout_s:g} s") from error
        return output.decode(errors="replace")

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_early(command: Sequence[str], number: int) -> None:
    """Starts a process for a later order, unless one is waiting. It ends with this process."""
    key = (tuple(command), number)
    if key not in IDLE or IDLE[key].process.poll() is not None:
        with suppress(ToolUnavailable):  # reported when the tool is used
            IDLE[key] = ToolProcess(*key)


def run_tool(command: Sequence[str], number: int, folder: Path, timeout_s: float) -> str:
    """Runs an order under a tool, in a waiting process if there is one; returns what the tool printed."""
    key = (tuple(command), number)
    process = IDLE.pop(key, None)
    if process is None or process.process.poll() is not None:
        process = ToolProcess(*key)
    return process.run(folder, timeout_s)
