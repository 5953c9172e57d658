"""The web application: serves pages and streams their changes. One thread reads runs, another reads banks."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from evokernel.app.http_server import run_until_stopped
from evokernel.core.errors import InfraError, UserError
from evokernel.reports import metrics
from evokernel.web import compare, glossary, graph, memory, runs, task
from evokernel.web.auth import AccessGuard
from evokernel.web.render import PACKAGE_FOLDER, Links, Page, Query, render_page, render_part
from evokernel.web.run_index import RunIndex

log = logging.getLogger(__name__)
POLL_S, RESCAN_S, HEARTBEAT_S = 0.5, 2.0, 15.0
PAGE_WAIT_S = 0.7
"""After this time a page that is not ready is replaced by a waiting page."""
WAITING = "waiting"
MAX_CACHED_PAGES = 16
MAX_PENDING_PAGES, PENDING_PAGE_TTL_S = 16, 20.0
"""Slow pages that render in the background, and how long a finished one waits for its browser."""
PageKey = tuple[str, tuple[tuple[str, str], ...]]
ASSETS = {"web.css": "text/css", "theme.js": "text/javascript", "web.js": "text/javascript"}
MAX_QUERY_LENGTH = 8192
RETRY_S = 5.0
"""A browser reloads after this time when the database server of a bank is down."""
T = TypeVar("T")


class View(NamedTuple):
    """A page of the dashboard and its version function."""

    make_page: Callable[[RunIndex, Query, Links], Page]
    read_version: Callable[[RunIndex, Query], object]


class BankView(NamedTuple):
    """A page that reads memory banks, and its version function."""

    make_page: Callable[[memory.OpenBanks, Query, Links], Page]
    read_version: Callable[[memory.OpenBanks, Query], object]


VIEWS: dict[str, View | BankView] = {
    "runs": View(runs.runs_page, runs.runs_version),
    "run": View(runs.run_page, runs.run_version),
    "task": View(task.task_page, task.task_version),
    "compare": View(compare.compare_page, compare.compare_version),
    "graph": View(graph.curriculum_page, runs.run_version),
    "memory": BankView(memory.memory_page, memory.memory_version),
    "glossary": View(glossary.glossary_page, glossary.glossary_version),
    "item": BankView(memory.item_page, memory.item_version),
}


def parse_query(request: Request) -> dict[str, str]:
    """The parameters of a URL; repeated parameters are joined with commas."""
    parameters: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if value:
            parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    return parameters


def page_key(view: str, query: Query) -> PageKey:
    """A page with its parameters, as a dictionary key."""
    return view, tuple(sorted(query.items()))


def page_digest(page: Page) -> str:
    """A hash of the content of a page, to detect changes."""
    return sha256("\0".join([*page.parts.values(), *page.cells.values()]).encode(errors="replace")).hexdigest()[:16]


class Dashboard:
    """The run index, the threads that read it, and the request handlers."""

    def __init__(self, run_index: RunIndex) -> None:
        self.run_index, self.links, self.banks = run_index, Links(), memory.OpenBanks(run_index)
        self.ending = asyncio.Event()
        self.page_cache: dict[PageKey, tuple[object, Page]] = {}
        self.pending_pages: dict[PageKey, asyncio.Future[str]] = {}
        self._runs, self._banks = ThreadPoolExecutor(1, "runs"), ThreadPoolExecutor(1, "banks")

    async def run_on_reader_thread(self, work: Callable[[], T], view: str = "runs") -> T:
        """Run a function on the thread that reads the data of a page."""
        thread = self._banks if isinstance(VIEWS[view], BankView) else self._runs
        return await asyncio.get_running_loop().run_in_executor(thread, work)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Look for new runs while the server runs; close everything at the end."""
        scan = asyncio.create_task(self.find_new_runs())
        yield
        scan.cancel()
        with suppress(asyncio.CancelledError):
            await scan
        self._banks.submit(self.banks.close)
        for thread in (self._runs, self._banks):
            thread.shutdown(wait=False)

    async def find_new_runs(self) -> None:
        """Find new runs and read them one at a time, so that requests are served in between."""
        while True:
            for key in await self.run_on_reader_thread(self.run_index.unread_keys):
                await self.run_on_reader_thread(lambda key=key: self.run_index.summary_row(key) if key in self.run_index.runs else None)  # type: ignore[misc]
            await asyncio.sleep(RESCAN_S)
            await self.run_on_reader_thread(self.run_index.rescan)

    async def is_ending_within(self, seconds: float) -> bool:
        """Wait, and return whether the server is shutting down."""
        try:
            await asyncio.wait_for(self.ending.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def make_page(self, view: str, query: Query) -> Page:
        """The current version of a page, computed once for all browsers that show it."""
        key, version, handler = page_key(view, query), self.read_version(view, query), VIEWS[view]
        if key not in self.page_cache or self.page_cache[key][0] != version:
            page = (
                handler.make_page(self.banks, query, self.links)
                if isinstance(handler, BankView)
                else handler.make_page(self.run_index, query, self.links)
            )
            while len(self.page_cache) >= MAX_CACHED_PAGES:
                self.page_cache.pop(next(iter(self.page_cache)), None)
            self.page_cache[key] = (version, page)
        return self.page_cache[key][1]

    def read_version(self, view: str, query: Query) -> object:
        """The version of a page's data."""
        handler = VIEWS[view]
        return handler.read_version(self.banks, query) if isinstance(handler, BankView) else handler.read_version(self.run_index, query)

    def render_html(self, view: str, query: Query) -> str:
        """A complete page as HTML."""
        page = self.make_page(view, query)
        return render_page(page, self.links, mark=page_digest(page), **self.extra_values(view, query))

    def extra_values(self, view: str, query: Query) -> dict[str, object]:
        """Values of a page that its live parts do not include."""
        if view == "memory":
            return memory.form_options(self.banks, query)
        if view == "graph":
            return {"operators": sorted(result.task.id for result in self.run_index.get(query["run"]).results if result.is_solved)}
        if view == "run":
            return {"categories": sorted({metrics.task_category(result.task) for result in self.run_index.get(query["run"]).results})}
        return {}

    async def serve_page(self, request: Request) -> Response:
        """Handle a request for a page."""
        view = request.url.path.strip("/") or "runs"
        query = parse_query(request)
        if len(request.url.query) > MAX_QUERY_LENGTH:
            return PlainTextResponse("The URL is too long.", 414)
        key = page_key(view, query)
        rendering = self.pending_pages.pop(key, None) or asyncio.ensure_future(
            self.run_on_reader_thread(lambda: self.render_html(view, query), view)
        )
        finished, _ = await asyncio.wait({rendering}, timeout=PAGE_WAIT_S)
        if not finished:
            self.keep_pending_page(key, rendering)
            waiting_page = Page("Reading", view, {**query}, {"wait": render_part("wait.html.j2", self.links)}, layout="plain.html.j2")
            return HTMLResponse(render_page(waiting_page, self.links, mark=WAITING))
        try:
            return HTMLResponse(rendering.result())
        except (UserError, InfraError) as error:
            is_temporary = isinstance(error, InfraError)  # the database server of a bank is down, and may come back
            title, status, headers = ("Unavailable", 503, {"refresh": f"{RETRY_S:g}"}) if is_temporary else ("Not found", 404, {})
            message = render_part("error.html.j2", self.links, title=title, message=str(error))
            error_page = Page(title, view, {}, {"error": message}, layout="plain.html.j2", is_live=False)
            return HTMLResponse(render_page(error_page, self.links, mark=""), status, headers)

    async def serve_kernel(self, request: Request) -> Response:
        """Handle a request for a file of a kernel, to be saved."""
        query = parse_query(request)
        try:
            text = await self.run_on_reader_thread(lambda: task.read_kernel_file(self.run_index, query))
        except UserError as error:
            return PlainTextResponse(str(error), 404)
        name = re.sub(r"[^A-Za-z0-9._+-]", "_", query["file"].rpartition("/")[2]).lstrip(".") or "kernel"
        return PlainTextResponse(text, headers={"content-disposition": f'attachment; filename="{name}"'})

    def keep_pending_page(self, key: PageKey, rendering: asyncio.Future[str]) -> None:
        """Keep a slow page while it renders: the browser shows a waiting page and then loads the finished one."""
        self.pending_pages[key] = rendering
        while len(self.pending_pages) > MAX_PENDING_PAGES:
            self.pending_pages.pop(next(iter(self.pending_pages))).cancel()

        def expire_page(page: asyncio.Future[str]) -> None:
            if not page.cancelled():
                page.exception()  # the browser gets it when it asks again
            asyncio.get_running_loop().call_later(
                PENDING_PAGE_TTL_S, lambda: self.pending_pages.pop(key, None) if self.pending_pages.get(key) is page else None
            )

        rendering.add_done_callback(expire_page)

    async def serve_changes(self, request: Request) -> Response:
        """Handle a request for the changes of a page, as server-sent events."""
        query = parse_query(request)
        view = query.pop("view", "")
        last_digest = request.headers.get("last-event-id") or query.pop("mark", "")
        if view not in VIEWS:
            return PlainTextResponse("No such page.", 404)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self.stream_changes(view, query, last_digest), media_type="text/event-stream", headers=headers)

    async def stream_changes(self, view: str, query: Query, last_digest: str) -> AsyncIterator[str]:
        """Yield an event for every change, and a heartbeat when there is none, so that dead connections are noticed."""
        yield "retry: 1000\n\n"
        if last_digest == WAITING:
            pending = self.pending_pages.get(page_key(view, query))
            while pending and not pending.done():
                if await self.is_ending_within(0.1):
                    return
            yield "event: reload\ndata: \n\n"
            return
        previous: Page | None = None
        version: object = None
        silent_s = 0.0
        while True:
            started_at = time.monotonic()
            try:
                new_version = await self.run_on_reader_thread(lambda: self.read_version(view, query), view)
                if new_version != version or previous is None:
                    page = await self.run_on_reader_thread(lambda: self.make_page(view, query), view)
                    changes = (
                        page.changed_parts(previous)
                        if previous
                        else {}
                        if page_digest(page) == last_digest
                        else {n: str(p) for n, p in page.parts.items()}
                    )
                    previous, version = page, new_version
                    if changes:
                        silent_s = 0.0
                        yield f"id: {page_digest(page)}\nevent: parts\ndata: {json.dumps(changes)}\n\n"
            except (UserError, InfraError) as error:
                log.info("event stream ended: %s", error)
                yield "event: reload\ndata: \n\n"
                return
            pause = max(POLL_S, min(1.0, time.monotonic() - started_at))  # an open page costs at most half a core
            if await self.is_ending_within(pause):
                return
            silent_s += pause
            if silent_s >= HEARTBEAT_S:
                silent_s = 0.0
                yield ": heartbeat\n\n"

    def build_application(self, host: str, port: int, token: str = "") -> AccessGuard:
        """The complete application behind its access guard."""
        pages = [Route("/" if view == "runs" else f"/{view}", self.serve_page) for view in VIEWS]
        routes = [*pages, Route("/live", self.serve_changes), Route("/download", self.serve_kernel), Route("/static/{name}", serve_asset)]
        return AccessGuard(Starlette(routes=routes, lifespan=self.lifespan), host, port, token)


async def serve_asset(request: Request) -> Response:
    """Serve one of the static files of the package."""
    name = request.path_params["name"]
    if name not in ASSETS:
        return PlainTextResponse("No such file.", 404)
    text = (PACKAGE_FOLDER / "static" / name).read_text()
    return Response(text, media_type=ASSETS[name], headers={"cache-control": "no-cache"})


def run_server(dashboard: Dashboard, host: str, token: str, listener: socket.socket) -> None:
    """Serve until the process is asked to stop; open event streams end at once."""

    def end_streams(_: Callable[[], None]) -> bool:
        dashboard.ending.set()
        return True

    app = dashboard.build_application(host, listener.getsockname()[1], token)
    run_until_stopped(app, listener, end_streams, timeout_graceful_shutdown=3)


def require_folder(folder: Path) -> Path:
    """The folder, or a UserError if it does not exist."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Name a run folder, or a folder that contains run folders.")
    return folder
