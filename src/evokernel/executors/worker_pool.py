"""Several judges at a time, the last used first; a job in trouble is given to one again."""

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
    """A job whose judge died is given to a fresh one, `tries` times in all; `read` makes an Outcome of an answer."""

    def __init__(self, judges: Sequence[WorkerProcess], tries: int, read: Callable[[str], Outcome]) -> None:
        self.all, self.tries, self.read = list(judges), tries, read
        self.free: queue.LifoQueue[WorkerProcess] = queue.LifoQueue()  # the last that was busy: it is warm, and no other need be started
        for judge in self.all:
            self.free.put(judge)
        self.pool = ThreadPoolExecutor(len(self.all))

    def submit(self, job: Job) -> Future[Outcome]:
        return self.pool.submit(self.verify, job)

    def verify(self, job: Job) -> Outcome:
        judge = self.free.get()
        try:
            for left in reversed(range(self.tries)):
                try:
                    return self.read(judge.ask(job))
                except InfraError as error:
                    if isinstance(error, MalformedReply):
                        judge.close()
                    if not left or isinstance(error, WorkerBug):
                        raise
                    log.warning("%s: %s; trying again", job.task.id, error)
            raise InfraError("no tries left")
        finally:
            self.free.put(judge)

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        for judge in self.all:
            judge.close()
