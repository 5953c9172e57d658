"""Verifies wherever a command leads: a line of JSON to its standard input, an Outcome from its standard output. ssh, containers, queues."""

from __future__ import annotations

import os
import shlex

from evokernel.core.commands import parse_command
from evokernel.core.records import Settings
from evokernel.executors.worker_pool import WorkerPool
from evokernel.executors.worker_process import WorkerProcess, found_there

NEEDS = "executor 'command' needs one: --set 'executor.command=\"ssh box evokernel worker\"'"


class Command(WorkerPool):
    """`command` is a list of words, or a line that is split like a shell would; `jobs` of it run at a time.

    With `keep` it serves job after job, as `evokernel worker` does, until its stdin ends; without, it is started for every job, and its
    stdin ends with that. One that gives no answer for `timeout_s` (0: as long as a judge may need) is killed; a job is tried `tries` times.
    """

    def __init__(self, command: str | list[str] = "", jobs: int = 1, timeout_s: float = 0, keep: bool = True, tries: int = 3) -> None:
        if jobs < 1 or tries < 1 or timeout_s < 0:
            raise ValueError(f"jobs = {jobs} and tries = {tries} must be at least 1, timeout_s = {timeout_s} at least 0")
        found = parse_command(command, "executor.command", NEEDS)
        name = f"'{os.path.basename(found[0])}'"
        super().__init__([WorkerProcess(found, name, timeout_s, keep) for _ in range(jobs)], tries, found_there)
        self.command = shlex.join(found)

    def toolchain(self, backend: str, settings: Settings) -> dict[str, str]:
        """Every outcome says what it was judged with; nothing is asked before."""
        return {"command": self.command}


plugin = Command
