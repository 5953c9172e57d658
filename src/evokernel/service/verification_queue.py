"""The verifications of a server: accept, find, cancel, follow, drain. Routes call this; it knows nothing about HTTP requests."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from evokernel.app.verification_pool import VerificationPool
from evokernel.core.bank_uri import BankLocation
from evokernel.core.records import Task
from evokernel.service.catalog import Catalog
from evokernel.service.dispatcher import Dispatcher
from evokernel.service.journal import Accepted, JobJournal, KeyConflict, Limits, NewJob, QueueFull, StoredJob
from evokernel.service.metrics import Metrics
from evokernel.service.models import VerificationRequest
from evokernel.service.problems import Problem
from evokernel.service.progress import Progress
from evokernel.service.tenants import Tenant

log = logging.getLogger(__name__)
CLEANING_S = 60.0


class QueueSettings(NamedTuple):
    """What the operator of a server chooses."""

    folder: Path
    max_queued: int = 1000
    """Verifications of all tenants that wait or run."""
    keep_days: float = 30
    """How long results are kept."""
    keep_mib: float = 1024
    """How much of them is kept for each tenant."""
    task_specs: tuple[str, ...] = ()
    allow_task_source: bool = False
    bank: BankLocation | None = None
    embedder: str = "hash"


class VerificationQueue:
    """Everything behind the routes. Close it, or drain it first so that what runs can end."""

    def __init__(self, pool: VerificationPool, settings: QueueSettings, slots: int) -> None:
        self.settings, self.pool = settings, pool
        self.catalog = Catalog(pool, settings.task_specs, settings.allow_task_source)
        self.journal = JobJournal(settings.folder)
        self.progress = Progress()
        self.metrics = Metrics(self.journal.count_states)
        self.dispatcher = Dispatcher(self.journal, self.catalog, self.progress, self.metrics, slots)
        self.is_draining = False
        self.ended = threading.Event()
        self.cleaner = threading.Thread(target=self.delete_old_results, name="cleaner", daemon=True)

    def start(self) -> None:
        """Continue what an earlier server left in the journal."""
        self.dispatcher.start()
        self.cleaner.start()

    def delete_old_results(self) -> None:
        """Delete results that are older or more than the operator keeps, now and every minute."""
        is_over = False
        while not is_over:
            try:
                self.journal.delete_older(self.settings.keep_days)
                self.journal.delete_oldest(round(self.settings.keep_mib * 2**20))
            except sqlite3.Error as error:
                log.error("old results were not deleted: %s", error)
            is_over = self.ended.wait(CLEANING_S)

    def drain(self, on_idle: Callable[[], None]) -> None:
        """Accept and start nothing more; call `on_idle` when nothing runs."""
        self.is_draining = True
        self.dispatcher.drain(on_idle)
        self.progress.notify_all()

    def close(self) -> None:
        """Stop the workers and close the journal."""
        self.is_draining = True
        self.ended.set()
        self.dispatcher.drain(lambda: None)
        self.progress.notify_all()
        self.pool.close()
        self.journal.close()

    def submit(self, tenant: Tenant, requests: Sequence[VerificationRequest], *, key: str, body: str, is_batch: bool) -> Accepted:
        """Check and store verifications, all or none; they are on disk when this returns. Raises Problem or UserError."""
        if self.is_draining:
            raise Problem.retry_later(503, "the server is stopping; try again when it is back", 10)
        self.check_sizes(tenant, requests)
        digest = hashlib.sha256(f"{is_batch}{body}".encode()).hexdigest()
        try:
            if key and (earlier := self.find_earlier(tenant, key, digest)):
                return earlier
            jobs = [self.prepare(request) for request in requests]
            limits = Limits(tenant.max_queued, self.settings.max_queued)
            accepted = self.journal.accept(tenant.name, jobs, limits, key=key, body=digest, is_batch=is_batch)
        except KeyConflict as error:
            raise Problem(409, "this Idempotency-Key was used with another body; choose a new key") from error
        except QueueFull as error:
            raise self.refuse_full(tenant, error.of_server) from error
        if not accepted.is_replay:
            self.dispatcher.enqueue((tenant.name, id) for id in accepted.ids)
        return accepted

    def find_earlier(self, tenant: Tenant, key: str, digest: str) -> Accepted | None:
        """What an earlier request with this key made, without planning anything."""
        with self.journal.lock:
            return self.journal.find_key(tenant.name, key, digest)

    def refuse_full(self, tenant: Tenant, of_server: bool) -> Problem:
        """The answer if the queue is full: 503 for the server's limit, 429 for the tenant's own."""
        self.metrics.refused.labels("server" if of_server else "tenant").inc()
        wait_s = self.dispatcher.estimate_wait_s()
        if of_server:
            return Problem.retry_later(503, "the queue of the server is full; try again later", wait_s)
        return Problem.retry_later(429, f"{tenant.max_queued} of your verifications may wait or run at a time; wait for some", wait_s)

    def check_sizes(self, tenant: Tenant, requests: Sequence[VerificationRequest]) -> None:
        """Refuse what exceeds the tenant's limits."""
        if len(requests) > tenant.max_batch:
            raise Problem(413, f"a batch may have {tenant.max_batch} verifications; this one has {len(requests)}")
        for request in requests:
            if request.kernel_bytes > tenant.max_kernel_bytes:
                raise Problem(413, f"a kernel may have {tenant.max_kernel_bytes} bytes; this one has {request.kernel_bytes}")
            if request.timeout_s and request.timeout_s > tenant.max_timeout_s:
                raise Problem(422, f"timeout_s: at most {tenant.max_timeout_s:g} s on this server")

    def prepare(self, request: VerificationRequest) -> NewJob:
        """Check a request completely, so that only verifications that can start are accepted."""
        task = self.catalog.load_task(request)
        planned = self.catalog.plan(request, task)
        text = request.model_dump_json(exclude_defaults=True)
        content = request.model_dump_json(exclude={"label", "reuse_outcome"})
        return NewJob(
            request=text,
            fingerprint=hashlib.sha256(content.encode()).hexdigest(),
            task=planned.task.id,
            task_record=task.model_dump_json() if isinstance(task, Task) else "",
            backend=request.backend,
            candidate=planned.candidate.id,
        )

    def find(self, tenant: Tenant, id: str) -> StoredJob:
        """A verification of a tenant. Those of others do not exist for it."""
        job = self.journal.find_job(id, tenant.name)
        if job is None:
            raise Problem(404, "there is no verification with this id")
        return job

    def find_batch(self, tenant: Tenant, id: str) -> list[StoredJob]:
        """The verifications of a tenant's batch."""
        jobs = self.journal.list_batch(tenant.name, id)
        if not jobs:
            raise Problem(404, "there is no batch with this id")
        return jobs

    def cancel(self, tenant: Tenant, id: str) -> StoredJob:
        """Cancel a verification that waits; one that is cancelled already stays so."""
        job = self.find(tenant, id)
        if self.journal.cancel(id, tenant.name):
            self.dispatcher.withdraw(id)
            self.metrics.ended.labels("cancelled", "").inc()
            self.progress.forget(id)
        elif self.find(tenant, id).state != "cancelled":
            raise Problem(409, f"the verification is {self.find(tenant, id).state}; only one that is queued can be cancelled")
        return self.find(tenant, job.id)
