"""Gives queued verifications to workers, fairly between tenants, and stores how each ended."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial

from evokernel.app.verification_pool import PlannedVerification
from evokernel.core.errors import InfraError, UserError
from evokernel.core.protocols import ReportingExecutor
from evokernel.core.records import TRANSIENT_REASONS, GateResult, Outcome, Task
from evokernel.reports.outcome_report import outcome_record
from evokernel.service.catalog import Catalog
from evokernel.service.journal import Ending, JobJournal, StoredJob
from evokernel.service.metrics import Metrics
from evokernel.service.models import VerificationRequest, VerificationResult
from evokernel.service.progress import Progress

log = logging.getLogger(__name__)
MAX_RETRY_AFTER_S = 60
SERVER_FAILED = "the server failed; its log has the cause"


class Dispatcher:
    """One thread gives verifications to the executor while it has fewer than `slots`; worker threads store their results.

    The executor has one more than it runs. That one stays `queued`, and can be cancelled, until a worker reports its first gate.
    """

    def __init__(self, journal: JobJournal, catalog: Catalog, progress: Progress, metrics: Metrics, slots: int) -> None:
        self.journal, self.catalog, self.progress, self.metrics, self.slots = journal, catalog, progress, metrics, slots
        self.condition = threading.Condition()
        self.queues: dict[str, deque[str]] = {}
        self.running: Counter[str] = Counter()
        self.futures: dict[str, Future[Outcome]] = {}
        """What the executor has, by id."""
        self.begun: dict[str, float] = {}
        """When a worker began what is `running`, by id."""
        self.last_start: dict[str, int] = {}
        self.start_count = 0
        self.mean_s = 2.0
        self.is_stopping = False
        self.on_idle: Callable[[], None] | None = None
        self.starter = ThreadPoolExecutor(1, "starter")
        self.thread = threading.Thread(target=self.run, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Take up what the journal has queued, and begin."""
        self.enqueue(self.journal.list_queued())
        self.thread.start()

    def enqueue(self, jobs: Iterable[tuple[str, str]]) -> None:
        """Add verifications (tenant, id) that the journal has accepted."""
        with self.condition:
            for tenant, id in jobs:
                self.queues.setdefault(tenant, deque()).append(id)
            self.condition.notify()

    def drain(self, on_idle: Callable[[], None]) -> None:
        """Start nothing more; call `on_idle` when nothing runs. What is queued stays in the journal."""
        with self.condition:
            self.is_stopping, self.on_idle = True, on_idle
            self.condition.notify()
            is_idle = not self.running.total()
        if is_idle:
            on_idle()

    def estimate_wait_s(self) -> int:
        """Seconds until a place in the queue is likely to become free."""
        return max(1, min(MAX_RETRY_AFTER_S, round(self.mean_s / self.slots + 0.5)))

    def run(self) -> None:
        """Start verifications until the server stops."""
        while True:
            with self.condition:
                self.condition.wait_for(lambda: self.is_stopping or (self.running.total() < self.slots and any(self.queues.values())))
                if self.is_stopping:
                    return self.starter.shutdown(wait=False)
                tenant = self.choose_tenant()
                id = self.queues[tenant].popleft()
                self.running[tenant] += 1
                self.start_count += 1
                self.last_start[tenant] = self.start_count
            error = self.starter.submit(self.start_job, tenant, id).exception()
            if error is not None:  # a bug or a full disk: the thread must survive it
                log.error("verification %s could not be started", id, exc_info=error)
                self.starter.submit(self.fail_start, id).exception()

    def fail_start(self, id: str) -> None:
        """End a verification that could not be started."""
        self.journal.mark_running(id)
        self.finish(id, Ending("failed", error=SERVER_FAILED), "bug")

    def choose_tenant(self) -> str:
        """The tenant with the fewest running verifications; among equals the one that waited longest."""
        waiting = [tenant for tenant, queue in self.queues.items() if queue]
        return min(waiting, key=lambda tenant: (self.running[tenant], self.last_start.get(tenant, 0)))

    def start_job(self, tenant: str, id: str) -> None:
        """Give one verification to the executor, or answer it with an identical outcome of its tenant."""
        is_submitted = False
        try:
            job = self.journal.find_job(id)
            if job is None or job.state != "queued":
                return  # it was cancelled
            request = VerificationRequest.model_validate_json(job.content.request)
            if request.reuse_outcome and (earlier := self.journal.find_reusable(job)):
                if self.begin(job):
                    self.metrics.reused.inc()
                    reason = VerificationResult.model_validate_json(earlier.result).reason or ""
                    self.finish(id, Ending("done", earlier.result, reused_from=earlier.id), reason)
                return
            is_submitted = self.submit(tenant, job, request)
            if (now := self.journal.find_job(id)) is None or now.state == "cancelled":  # while it was given to the executor
                self.withdraw(id)
        finally:
            if not is_submitted:
                self.release(tenant)

    def submit(self, tenant: str, job: StoredJob, request: VerificationRequest) -> bool:
        """Give a verification to the executor; False if that is refused, for example because the task is gone."""
        try:
            planned = self.plan(job, request)
            if not isinstance(self.catalog.pool.executor, ReportingExecutor) and not self.begin(job):
                return False  # it was cancelled
            # The outcome cache is shared by all tenants: how fast it answers would tell one that another has sent the same kernel.
            future = self.catalog.pool.submit(planned, on_gate=partial(self.report_gate, job), ignore_cache=True)
        except (UserError, InfraError) as error:
            self.begin(job)
            self.finish(job.id, Ending("failed", error=one_line(error)), "refused")
            return False
        self.futures[job.id] = future
        future.add_done_callback(partial(self.complete, tenant, job, planned))
        return True

    def begin(self, job: StoredJob) -> bool:
        """Mark a verification as running, once; False if it was cancelled."""
        if job.id in self.begun:
            return True
        if not self.journal.mark_running(job.id):
            return False
        self.begun[job.id] = time.monotonic()
        self.metrics.wait_seconds.observe(max(0.0, time.time() - job.created_at))
        return True

    def report_gate(self, job: StoredJob, gate: str, result: GateResult | None) -> None:
        """Note the progress of a verification; its first gate says that a worker has taken it."""
        try:
            if self.begin(job):
                self.progress.add_gate(job.id, gate, result)
        except sqlite3.Error as error:  # the next gate tries again; the worker must not notice
            log.error("verification %s was not marked as running: %s", job.id, error)

    def withdraw(self, id: str) -> None:
        """Take a cancelled verification back from the executor. If a worker has just begun it, its outcome is dropped."""
        if future := self.futures.get(id):
            future.cancel()

    def plan(self, job: StoredJob, request: VerificationRequest) -> PlannedVerification:
        """Plan a verification from what the journal keeps of it."""
        task = Task.model_validate_json(job.content.task_record) if job.content.task_record else self.catalog.load_task(request)
        return self.catalog.plan(request, task, job.seed)

    def complete(self, tenant: str, job: StoredJob, planned: PlannedVerification, future: Future[Outcome]) -> None:
        """Store the outcome of a verification; called from a worker thread. One that was stopped with the server stays in the journal."""
        try:
            if not future.cancelled() and not isinstance(future.exception(), CancelledError):
                self.begin(job)  # an outcome without a reported gate
                self.observe_seconds(job.id)
                self.store(job.id, planned, future)
        finally:
            self.futures.pop(job.id, None)
            self.begun.pop(job.id, None)
            self.release(tenant)

    def observe_seconds(self, id: str) -> None:
        """Note how long a verification ran."""
        if id in self.begun:
            seconds = time.monotonic() - self.begun[id]
            self.metrics.verify_seconds.observe(seconds)
            self.mean_s += 0.1 * (seconds - self.mean_s)

    def store(self, id: str, planned: PlannedVerification, future: Future[Outcome]) -> None:
        """Store an outcome, or why there is none."""
        error = future.exception()
        if isinstance(error, UserError | InfraError):
            self.finish(id, Ending("failed", error=one_line(error)), "infrastructure")
        elif error is not None:
            log.error("verification %s failed", id, exc_info=error)
            self.finish(id, Ending("failed", error=SERVER_FAILED), "bug")
        else:
            outcome = future.result()
            reason = outcome.failure.reason if outcome.failure else ""
            record = outcome_record(planned.task, planned.candidate, outcome)
            result = VerificationResult.model_validate(record | {"gates": record["outcome"]["gates"]})
            self.finish(id, Ending("done", result.model_dump_json(), is_repeatable=reason not in TRANSIENT_REASONS), reason)

    def finish(self, id: str, ending: Ending, reason: str = "") -> None:
        """Write the end of a verification to the journal and wake those who wait for it."""
        if self.journal.finish(id, ending):
            self.metrics.ended.labels(ending.state, reason).inc()
        self.begun.pop(id, None)
        self.progress.forget(id)

    def release(self, tenant: str) -> None:
        """Free the place of a verification that has ended."""
        with self.condition:
            self.running[tenant] -= 1
            if not self.running[tenant]:
                del self.running[tenant]
            self.condition.notify()
            on_idle = self.on_idle if self.is_stopping and not self.running.total() else None
        if on_idle:
            on_idle()


def one_line(error: Exception) -> str:
    """The message of an error as one line."""
    return " ".join(str(error).split())
