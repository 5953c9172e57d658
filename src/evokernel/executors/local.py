"""Verifies on this machine in a pool of worker processes: a worker can die without ending the run."""

from __future__ import annotations

from evokernel.core.cores import make_share_variables, usable_cores
from evokernel.executors.worker_pool import WorkerPool, WorkerProcess, parse_reply


class LocalExecutor(WorkerPool):
    """`workers` processes at a time (0: one per core); a job whose worker died is given to a new one, up to `max_attempts` times.

    Each worker, with all processes that it starts, uses its share of the machine's cores.
    """

    def __init__(self, workers: int = 0, max_attempts: int = 3) -> None:
        count = workers or usable_cores()
        variables = make_share_variables(count)
        super().__init__([WorkerProcess(variables=variables) for _ in range(count)], max_attempts, parse_reply)


plugin = LocalExecutor
