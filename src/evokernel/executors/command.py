"""Verifies through a command, such as ssh, a container or a queue: one job as a line of JSON on stdin, one outcome on stdout."""

from __future__ import annotations

import os
import shlex

from evokernel.core.commands import parse_command
from evokernel.core.records import Settings
from evokernel.executors.worker_pool import WorkerPool, WorkerProcess, parse_remote_reply

MISSING_COMMAND = "executor 'command' requires a command: --set 'executor.command=\"ssh box evokernel worker\"'"


class CommandExecutor(WorkerPool):
    """`command` is a list of words, or a line that is split as a shell would; `jobs` of it run at a time.

    With `persistent` the command serves job after job until its stdin ends, as `evokernel worker` does; otherwise it is started for every
    job, and its stdin ends with that job. A command that does not reply within `timeout_s` (0: as long as a verifier may need) is killed;
    each job gets `max_attempts` attempts.
    """

    def __init__(
        self, command: str | list[str] = "", jobs: int = 1, timeout_s: float = 0, persistent: bool = True, max_attempts: int = 3
    ) -> None:
        if jobs < 1 or max_attempts < 1 or timeout_s < 0:
            raise ValueError(f"jobs = {jobs} and max_attempts = {max_attempts} must be at least 1, timeout_s = {timeout_s} at least 0")
        command_line = parse_command(command, "executor.command", MISSING_COMMAND)
        name = f"'{os.path.basename(command_line[0])}'"
        super().__init__([WorkerProcess(command_line, name, timeout_s, persistent) for _ in range(jobs)], max_attempts, parse_remote_reply)
        self.command = shlex.join(command_line)

    def toolchain(self, backend: str, settings: Settings) -> dict[str, str]:
        """Return the command; every outcome reports the toolchain that verified it."""
        return {"command": self.command}


plugin = CommandExecutor
