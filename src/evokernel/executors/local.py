"""Verifies on this machine: a few warm judges, each a process of its own that can die without taking the run along."""

from __future__ import annotations

from evokernel.core.config import usable_cores
from evokernel.executors.worker_pool import WorkerPool
from evokernel.executors.worker_process import WorkerProcess, outcome


class Local(WorkerPool):
    """`workers` judges at a time (0: one per core); a job whose judge died is given to a fresh one, `tries` times in all."""

    def __init__(self, workers: int = 0, tries: int = 3) -> None:
        super().__init__([WorkerProcess() for _ in range(workers or usable_cores())], tries, outcome)


plugin = Local
