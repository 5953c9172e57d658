"""Turns stored verifications into the responses of the service."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool

from evokernel.core.records import GateResult, Outcome
from evokernel.reports.opportunities import annotate_source
from evokernel.service.journal import StoredJob
from evokernel.service.models import Batch, KernelProfile, SourceGain, Verification, VerificationRequest, VerificationResult
from evokernel.service.problems import Problem
from evokernel.service.progress import GateEvent
from evokernel.service.tenants import Tenant
from evokernel.service.verification_queue import VerificationQueue

HEARTBEAT_S = 15.0


class ServerEvent(NamedTuple):
    """One event of a stream (server-sent events)."""

    name: str
    data: dict[str, Any]

    def encode(self, number: int) -> str:
        """The event as the stream carries it."""
        return f"id: {number}\nevent: {self.name}\ndata: {json.dumps(self.data)}\n\n"


def show_verification(job: StoredJob, with_result: bool = True) -> Verification:
    """A verification as clients see it."""
    request = VerificationRequest.model_validate_json(job.content.request)
    return Verification(
        id=job.id,
        state=job.state,
        task=job.content.task,
        backend=job.content.backend,
        candidate=job.content.candidate,
        label=request.label,
        batch=job.batch or None,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        reused_from=job.reused_from or None,
        error=job.error or None,
        result=VerificationResult.model_validate_json(job.result) if job.result and with_result else None,
    )


def show_batch(id: str, jobs: list[StoredJob]) -> Batch:
    """A batch as clients see it."""
    return Batch(id=id, states=dict(Counter(job.state for job in jobs)), verifications=[job.id for job in jobs])


def show_profile(job: StoredJob) -> KernelProfile:
    """Where a verified kernel loses its time. Raises Problem if it has no outcome."""
    if not job.result:
        raise Problem(409, f"the verification is {job.state}; a profile needs its outcome")
    result = VerificationResult.model_validate_json(job.result)
    record: Any = result.outcome.get("profile") or {}
    lines: list[SourceGain] = []
    with suppress(ValidationError):  # an outcome that another version of evokernel stored
        outcome, request = Outcome.model_validate(result.outcome), VerificationRequest.model_validate_json(job.content.request)
        files = request.files or {"kernel": request.kernel or ""}
        for name, source in annotate_source(files, outcome).items():
            lines += [SourceGain(file=name, line=r.number, text=r.text, gain_us=r.gain_us, cause=r.cause) for r in source if r.gain_us]
    return KernelProfile(
        id=job.id,
        latency_us=result.latency_us,
        bottleneck=result.bottleneck,
        summary=record.get("summary"),
        figures=record.get("figures", {}),
        opportunities=result.opportunities,
        lines=lines,
    )


def gate_event(gate: str, result: GateResult | None) -> ServerEvent:
    """The event of a gate that started or ended."""
    if result is None:
        return ServerEvent("gate", {"gate": gate, "state": "started"})
    state = "passed" if result.passed else "failed"
    return ServerEvent("gate", {"gate": gate, "state": state, "reason": result.reason, "seconds": round(result.seconds, 3)})


def list_events(job: StoredJob, running: list[GateEvent]) -> Iterator[ServerEvent]:
    """All events of a verification so far. When it has ended, the stored gates replace those that were reported while they ran."""
    yield ServerEvent("state", {"state": "queued"})
    if job.started_at is not None:
        yield ServerEvent("state", {"state": "running"})
    if job.result:
        for gate in VerificationResult.model_validate_json(job.result).gates:
            yield gate_event(gate.gate, None)
            yield gate_event(gate.gate, GateResult.model_validate(gate.model_dump()))
    elif not job.is_final:
        yield from (gate_event(*event) for event in running)
    if job.is_final:
        yield ServerEvent("end", {"state": job.state, "error": job.error or None})


async def stream_events(queue: VerificationQueue, tenant: Tenant, id: str, last: int) -> AsyncIterator[str]:
    """Events after number `last`, until the verification ends or the server stops."""
    with queue.progress.watch(id) as watch:
        while True:
            running = queue.progress.read_events(id)  # before the journal: events that are forgotten in between are in the result
            job = await run_in_threadpool(queue.find, tenant, id)
            events = list(list_events(job, running))
            for number, event in enumerate(events, start=1):
                if number > last or event.name == "end":  # fewer events than before if a worker died and its job began again
                    last = max(number, last)
                    yield event.encode(last)
            if job.is_final or queue.ended.is_set() or (queue.is_draining and job.state == "queued"):
                return
            if not await watch.wait(HEARTBEAT_S):
                yield ": heartbeat\n\n"


async def wait_until_final(queue: VerificationQueue, tenant: Tenant, id: str, wait_s: float) -> StoredJob:
    """The verification when it has ended, or as it is after `wait_s` seconds or when the server stops."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    find = partial(run_in_threadpool, queue.find, tenant, id)
    with queue.progress.watch(id) as watch:
        job = await find()
        while not job.is_final and (left_s := deadline - loop.time()) > 0 and not queue.is_draining:
            await watch.wait(left_s)
            job = await find()
    return job
