"""A pool of worker processes: the most recently used one gets the next job, and a failed job is retried."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from evokernel.core.errors import InfraError
from evokernel.core.records import Job, Outcome
from evokernel.executors.worker_process import MalformedReply, WorkerBug, WorkerProcess

log = logging.getLogger(__name__)


class WorkerPool:
    """A job whose worker died is given to a new one, up to `max_attempts` times; `parse_reply` converts a reply to an outcome."""

    def __init__(self, workers: Sequence[WorkerProcess], max_attempts: int, parse_reply: Callable[[str], Outcome]) -> None:
        self.workers, self.max_attempts, self.parse_reply = list(workers), max_attempts, parse_reply
        self.idle_workers: queue.LifoQueue[WorkerProcess] = queue.LifoQueue()  # the most recently used: it is already started
        for worker in self.workers:
            self.idle_workers.put(worker)
        self.pool = ThreadPoolExecutor(len(self.workers))

    def submit(self, job: Job) -> Future[Outcome]:
        return self.pool.submit(self.verify, job)

    def verify(self, job: Job) -> Outcome:
        """Verify a job in the next idle worker."""
        worker = self.idle_workers.get()
        try:
            for remaining in reversed(range(self.max_attempts)):
                try:
                    return self.parse_reply(worker.request_outcome(job))
                except InfraError as error:
                    if isinstance(error, MalformedReply):
                        worker.close()
                    if not remaining or isinstance(error, WorkerBug):
                        raise
                    log.warning("%s: %s; retrying", job.task.id, error)
            raise InfraError("all attempts to verify the job failed")
        finally:
            self.idle_workers.put(worker)

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.close()
