"""The routes that only read: tasks, the memory bank, health and metrics."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response, Security
from pydantic import JsonValue

from evokernel import __version__
from evokernel.core.bank_uri import BankLocation
from evokernel.core.errors import UserError
from evokernel.core.plugins import make_plugin
from evokernel.core.records import MemoryItem
from evokernel.memory.reader import BankReader
from evokernel.service import metrics
from evokernel.service.catalog import UnknownTask
from evokernel.service.models import Health, MemoryHit, MemoryHits, ShortText, TaskEntry, TaskPage
from evokernel.service.problems import Problem, document_problems
from evokernel.service.routes import QueueArg, TenantArg, bearer

router = APIRouter(prefix="/v1", dependencies=[Security(bearer)])
open_router = APIRouter()
BANK_THREAD = ThreadPoolExecutor(1, "bank")
"""One search at a time: each reads the vectors of the bank."""
Kind = Literal["api", "practice", "experience", "trace"]


@router.get("/tasks", response_model=TaskPage, tags=["tasks"], responses=document_problems())
def list_tasks(
    queue: QueueArg,
    suite: str = "",
    category: str = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> TaskPage:
    """List the tasks of this server."""
    files = queue.catalog.list_files(suite, category)
    page = [TaskEntry(id=file.id, family=file.family, category=file.category, level=file.level) for file in files[offset : offset + limit]]
    return TaskPage(tasks=page, total=len(files))


@router.get("/tasks/{id:path}", response_model=dict[str, JsonValue], tags=["tasks"], responses=document_problems(404))
def read_task(id: str, queue: QueueArg, backend: str = "cpp", size: Literal["laptop", "full"] | None = None) -> dict[str, Any]:
    """Show what a kernel for a task must do on a backend: signature, sizes, tolerances, entry point and reference."""
    try:
        return queue.catalog.describe(id, backend, size)
    except UnknownTask as error:
        raise Problem(404, str(error)) from error


def require_bank(queue: QueueArg) -> BankLocation:
    """The memory bank of this server. Raises Problem if it has none."""
    if queue.settings.bank is None:
        raise Problem(404, "this server has no memory bank; its operator names one with --memory")
    return queue.settings.bank


@router.get("/memory/search", response_model=MemoryHits, tags=["memory"], responses=document_problems(404))
def search_memory(
    queue: QueueArg,
    q: Annotated[ShortText, Query(description="What to look for: words, or the source of a reference")],
    kind: Annotated[list[Kind], Query()] = [],  # noqa: B006
    backend: Annotated[str, Query(max_length=100)] = "",
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
) -> MemoryHits:
    """Find the items of the memory bank that are most similar to a text, as a run would find them."""
    bank = require_bank(queue)

    def search() -> list[MemoryHit]:
        with BankReader(bank) as reader:
            hits = reader.search(q, make_plugin("embedder", queue.settings.embedder), limit, kinds=kind, backend=backend)
        return [show_item(hit.item, float(hit.similarity)) for hit in hits]

    return MemoryHits(items=BANK_THREAD.submit(search).result())


@router.get("/memory/items/{id:path}", response_model=MemoryHit, tags=["memory"], responses=document_problems(404))
def read_item(id: str, queue: QueueArg) -> MemoryHit:
    """Read one item of the memory bank. Items that were revoked or archived do not exist."""
    bank = require_bank(queue)
    try:
        with BankReader(bank) as reader:
            entry = reader.get_item(id)
    except UserError as error:
        raise Problem(404, "the memory bank has no item with this id") from error
    if entry.is_revoked or entry.is_archived:
        raise Problem(404, "the memory bank has no item with this id")
    return show_item(entry.item, None)


def show_item(item: MemoryItem, similarity: float | None) -> MemoryHit:
    """An item as clients see it."""
    return MemoryHit(**item.model_dump(mode="json", include=set(MemoryHit.model_fields) - {"similarity"}), similarity=similarity)


@open_router.get("/healthz", response_model=Health, tags=["server"], responses={503: {"model": Health}})
async def read_health(queue: QueueArg, response: Response) -> Health:
    """Whether the server accepts verifications; needs no token."""
    if queue.is_draining:
        response.status_code = 503
    return Health(status="draining" if queue.is_draining else "ok", version=__version__)


@open_router.get(
    "/metrics",
    tags=["server"],
    dependencies=[Security(bearer)],
    response_class=Response,
    responses=document_problems() | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def read_metrics(tenant: TenantArg, queue: QueueArg) -> Response:
    """Figures for Prometheus; they are about all tenants together, so that a tenant needs `can_read_metrics`."""
    if not tenant.can_read_metrics:
        raise Problem(403, "this token may not read metrics; the operator sets can_read_metrics for its tenant")
    return Response(queue.metrics.render(), media_type=metrics.CONTENT_TYPE)
