"""The routes under /v1 for verifications and batches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response, Security
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool

from evokernel.service.guard import StreamLimiter
from evokernel.service.journal import StoredJob
from evokernel.service.models import Batch, BatchRequest, KernelProfile, Verification, VerificationPage, VerificationRequest
from evokernel.service.problems import Problem, document_problems
from evokernel.service.responses import show_batch, show_profile, show_verification, stream_events, wait_until_final
from evokernel.service.tenants import Tenant
from evokernel.service.verification_queue import VerificationQueue

MAX_WAIT_S = 300.0
bearer = HTTPBearer(auto_error=False, description="The token that the operator of the server gave you")


def current_tenant(request: Request) -> Tenant:
    """The tenant that the guard found."""
    tenant: Tenant = request.state.tenant
    return tenant


def current_queue(request: Request) -> VerificationQueue:
    """The verifications of this server."""
    queue: VerificationQueue = request.app.state.queue
    return queue


def current_streams(request: Request) -> StreamLimiter:
    """Counts the requests that stay open."""
    streams: StreamLimiter = request.app.state.streams
    return streams


TenantArg = Annotated[Tenant, Depends(current_tenant)]
QueueArg = Annotated[VerificationQueue, Depends(current_queue)]
StreamsArg = Annotated[StreamLimiter, Depends(current_streams)]
WaitArg = Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Wait up to this many seconds for the end of the verification")]
KeyArg = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        max_length=200,
        pattern=r"^[!-~]*$",
        description="A request with the same key and body is accepted once; the same key with another body is refused",
    ),
]
router = APIRouter(prefix="/v1", dependencies=[Security(bearer)])


def answer_location(response: Response, path: str, is_replay: bool) -> None:
    """Say where the new resource is, and whether an earlier request made it."""
    response.headers["location"] = path
    if is_replay:
        response.headers["idempotent-replayed"] = "true"


@router.post(
    "/verifications",
    status_code=202,
    response_model=Verification,
    tags=["verifications"],
    responses=document_problems(409, 413, 415) | {200: {"model": Verification, "description": "The verification has ended"}},
)
async def submit_verification(
    body: VerificationRequest,
    response: Response,
    tenant: TenantArg,
    queue: QueueArg,
    streams: StreamsArg,
    wait_s: WaitArg = 0,
    key: KeyArg = "",
) -> Verification:
    """Verify one kernel. Answers 202 when the verification is safely stored, or 200 with the result if it ends within `wait_s`."""
    accepted = await run_in_threadpool(queue.submit, tenant, [body], key=key, body=body.model_dump_json(), is_batch=False)
    job = await find_or_wait(queue, streams, tenant, accepted.ids[0], wait_s)
    answer_location(response, f"/v1/verifications/{job.id}", accepted.is_replay)
    if job.is_final:
        response.status_code = 200
    return await run_in_threadpool(show_verification, job)


async def find_or_wait(queue: VerificationQueue, streams: StreamLimiter, tenant: Tenant, id: str, wait_s: float) -> StoredJob:
    """The verification as it is, or after waiting for its end. A client that may not wait gets it as it is."""
    if wait_s:
        try:
            with streams.hold(tenant):
                return await wait_until_final(queue, tenant, id, wait_s)
        except Problem as problem:
            if problem.status != 429:
                raise
    return await run_in_threadpool(queue.find, tenant, id)


@router.get("/verifications", response_model=VerificationPage, tags=["verifications"], responses=document_problems())
def list_verifications(
    tenant: TenantArg,
    queue: QueueArg,
    state: Literal["", "queued", "running", "done", "failed", "cancelled"] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    after: Annotated[str, Query(max_length=64, description="`next` of the page before")] = "",
) -> VerificationPage:
    """List your verifications, newest first, without their results."""
    before = queue.find(tenant, after).seq if after else 0
    jobs = queue.journal.list_jobs(tenant.name, state, before, limit)
    return VerificationPage(
        verifications=[show_verification(job, with_result=False) for job in jobs], next=jobs[-1].id if len(jobs) == limit else None
    )


@router.get("/verifications/{id}", response_model=Verification, tags=["verifications"], responses=document_problems(404))
async def read_verification(id: str, tenant: TenantArg, queue: QueueArg, streams: StreamsArg, wait_s: WaitArg = 0) -> Verification:
    """Read a verification and its result; with `wait_s`, wait for its end first."""
    job = await find_or_wait(queue, streams, tenant, id, wait_s)
    return await run_in_threadpool(show_verification, job)


@router.delete("/verifications/{id}", response_model=Verification, tags=["verifications"], responses=document_problems(404, 409))
def cancel_verification(id: str, tenant: TenantArg, queue: QueueArg) -> Verification:
    """Cancel a verification that is still queued."""
    return show_verification(queue.cancel(tenant, id))


@router.get(
    "/verifications/{id}/events",
    tags=["verifications"],
    response_class=StreamingResponse,
    responses=document_problems(404)
    | {200: {"description": "Server-sent events: state, gate and end", "content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def follow_verification(
    id: str,
    tenant: TenantArg,
    queue: QueueArg,
    streams: StreamsArg,
    last_event_id: Annotated[int, Header(ge=0, le=1_000_000, description="Skip events up to this number")] = 0,
) -> StreamingResponse:
    """Follow a verification by gate. A verification that has ended gives its events at once."""
    await run_in_threadpool(queue.find, tenant, id)
    place = streams.hold(tenant)
    place.__enter__()  # before the response begins: a refusal is an answer with a status

    async def stream() -> AsyncIterator[str]:
        try:
            async for text in stream_events(queue, tenant, id, last_event_id):
                yield text
        finally:
            place.__exit__(None, None, None)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


@router.get("/verifications/{id}/profile", response_model=KernelProfile, tags=["verifications"], responses=document_problems(404, 409))
def read_profile(id: str, tenant: TenantArg, queue: QueueArg) -> KernelProfile:
    """Read where a verified kernel loses its time, and by how much each cause would shorten it."""
    return show_profile(queue.find(tenant, id))


@router.post("/batches", status_code=202, response_model=Batch, tags=["batches"], responses=document_problems(409, 413, 415))
async def submit_batch(body: BatchRequest, response: Response, tenant: TenantArg, queue: QueueArg, key: KeyArg = "") -> Batch:
    """Verify several kernels; all are accepted or none."""
    accepted = await run_in_threadpool(queue.submit, tenant, body.verifications, key=key, body=body.model_dump_json(), is_batch=True)
    answer_location(response, f"/v1/batches/{accepted.batch}", accepted.is_replay)
    return show_batch(accepted.batch, await run_in_threadpool(queue.find_batch, tenant, accepted.batch))


@router.get("/batches/{id}", response_model=Batch, tags=["batches"], responses=document_problems(404))
def read_batch(id: str, tenant: TenantArg, queue: QueueArg) -> Batch:
    """Read the states of a batch."""
    return show_batch(id, queue.find_batch(tenant, id))
