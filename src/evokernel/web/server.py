"""The application: views as pages and as streams of what changes in them. One thread reads runs, another banks."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from evokernel.core.errors import InfraError, UserError
from evokernel.reports import metrics
from evokernel.web import graph, memory, runs, task
from evokernel.web.auth import Guard
from evokernel.web.render import HERE, Links, Page, Query, part, whole
from evokernel.web.run_index import Shelf

log = logging.getLogger(__name__)
POLL_S, LOOK_S, BEAT_S = 0.5, 2.0, 15.0
PATIENCE_S = 0.7
"""After this a page that says what it waits for is better than none."""
WAITING = "waiting"
MOST_MADE = 16
MOST_LATE, LATE_S = 16, 20.0
"""Pages that are made while somebody waits, and for how long they are kept."""
Asked = tuple[str, tuple[tuple[str, str], ...]]
ASSETS = {"web.css": "text/css", "theme.js": "text/javascript", "web.js": "text/javascript"}
LONGEST_ADDRESS = 8192
AWAY_S = 5.0
"""After this who looks at a bank whose server is away asks again."""
T = TypeVar("T")


class View(NamedTuple):
    """What stands at an address, and something that changes when it may have changed."""

    page: Callable[[Shelf, Query, Links], Page]
    state: Callable[[Shelf, Query], object]


class BankView(NamedTuple):
    """The same, of memory banks."""

    page: Callable[[memory.Banks, Query, Links], Page]
    state: Callable[[memory.Banks, Query], object]


VIEWS: dict[str, View | BankView] = {
    "runs": View(runs.runs, runs.runs_state),
    "run": View(runs.run, runs.run_state),
    "task": View(task.task, task.task_state),
    "graph": View(graph.graph, runs.run_state),
    "memory": BankView(memory.memory, memory.memory_state),
    "item": BankView(memory.item, memory.item_state),
}


def asked(request: Request) -> dict[str, str]:
    """The state in an address; what is given several times is joined by commas."""
    found: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if value:
            found[name] = f"{found[name]},{value}" if name in found else value
    return found


def asked_for(view: str, query: Query) -> Asked:
    """A view in a state, as a key."""
    return view, tuple(sorted(query.items()))


def mark(page: Page) -> str:
    """Tells two states of a page apart."""
    return sha256("\0".join([*page.parts.values(), *page.cells.values()]).encode(errors="replace")).hexdigest()[:16]


class Site:
    """The shelf, the thread that reads it, and what answers requests."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.links, self.banks = shelf, Links(), memory.Banks(shelf)
        self.ending = asyncio.Event()
        self.made: dict[Asked, tuple[object, Page]] = {}
        self.late: dict[Asked, asyncio.Future[str]] = {}
        self._runs, self._banks = ThreadPoolExecutor(1, "runs"), ThreadPoolExecutor(1, "banks")

    async def read(self, work: Callable[[], T], view: str = "runs") -> T:
        """Does something on the thread that reads what a view shows."""
        thread = self._banks if isinstance(VIEWS[view], BankView) else self._runs
        return await asyncio.get_running_loop().run_in_executor(thread, work)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(self.watch())
        yield
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        self._banks.submit(self.banks.close)
        for thread in (self._runs, self._banks):
            thread.shutdown(wait=False)

    async def watch(self) -> None:
        """Finds new runs, and reads those nobody asked for yet, one at a time, so that requests can come between."""
        while True:
            for key in await self.read(self.shelf.unread):
                await self.read(lambda key=key: self.shelf.row(key) if key in self.shelf.runs else None)  # type: ignore[misc]
            await asyncio.sleep(LOOK_S)
            await self.read(self.shelf.look)

    async def ends_within(self, seconds: float) -> bool:
        """Waits; says whether the server is to end."""
        try:
            await asyncio.wait_for(self.ending.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def page(self, view: str, query: Query) -> Page:
        """A view as it is now; made once for all who look at the same."""
        key, state, found = asked_for(view, query), self.state(view, query), VIEWS[view]
        if key not in self.made or self.made[key][0] != state:
            page = found.page(self.banks, query, self.links) if isinstance(found, BankView) else found.page(self.shelf, query, self.links)
            while len(self.made) >= MOST_MADE:
                self.made.pop(next(iter(self.made)), None)
            self.made[key] = (state, page)
        return self.made[key][1]

    def state(self, view: str, query: Query) -> object:
        found = VIEWS[view]
        return found.state(self.banks, query) if isinstance(found, BankView) else found.state(self.shelf, query)

    def html(self, view: str, query: Query) -> str:
        """A view as a whole page."""
        page = self.page(view, query)
        return whole(page, self.links, mark=mark(page), **self.around(view, query))

    def around(self, view: str, query: Query) -> dict[str, object]:
        """What a page holds besides the parts that change."""
        if view == "memory":
            return memory.around(self.banks, query)
        if view == "graph":
            return {"operators": sorted(tried.task.id for tried in self.shelf.get(query["run"]).found if tried.solved)}
        if view == "run":
            return {"categories": sorted({metrics.category(tried.task) for tried in self.shelf.get(query["run"]).found})}
        return {}

    async def show(self, request: Request) -> Response:
        """A page."""
        view = request.url.path.strip("/") or "runs"
        query = asked(request)
        if len(request.url.query) > LONGEST_ADDRESS:
            return PlainTextResponse("this address is too long", 414)
        key = asked_for(view, query)
        reading = self.late.pop(key, None) or asyncio.ensure_future(self.read(lambda: self.html(view, query), view))
        done, _ = await asyncio.wait({reading}, timeout=PATIENCE_S)
        if not done:
            self.keep_for_later(key, reading)
            waiting = Page("Reading", view, {**query}, {"wait": part("wait.html.j2", self.links)}, layout="plain.html.j2")
            return HTMLResponse(whole(waiting, self.links, mark=WAITING))
        try:
            return HTMLResponse(reading.result())
        except (UserError, InfraError) as error:
            found = isinstance(error, InfraError)  # a server with a bank is away, and may come back
            title, code, more = ("Away", 503, {"refresh": f"{AWAY_S:g}"}) if found else ("Not found", 404, {})
            says = part("trouble.html.j2", self.links, title=title if found else "Not here", says=str(error))
            trouble = Page(title, view, {}, {"trouble": says}, layout="plain.html.j2", live=False)
            return HTMLResponse(whole(trouble, self.links, mark=""), code, more)

    def keep_for_later(self, key: Asked, reading: asyncio.Future[str]) -> None:
        """A page that takes long is made once: who waits for it is told when it is there, and then gets that one."""
        self.late[key] = reading
        while len(self.late) > MOST_LATE:
            self.late.pop(next(iter(self.late))).cancel()

        def fade(made: asyncio.Future[str]) -> None:
            if not made.cancelled():
                made.exception()  # told to who asks again
            asyncio.get_running_loop().call_later(LATE_S, lambda: self.late.pop(key, None) if self.late.get(key) is made else None)

        reading.add_done_callback(fade)

    async def live(self, request: Request) -> Response:
        """What changes in a view, as server-sent events."""
        query = asked(request)
        view = query.pop("view", "")
        seen = request.headers.get("last-event-id") or query.pop("mark", "")
        if view not in VIEWS:
            return PlainTextResponse("no such view", 404)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self.changes(view, query, seen), media_type="text/event-stream", headers=headers)

    async def changes(self, view: str, query: Query, seen: str) -> AsyncIterator[str]:
        """An event for every change; a beat when there is none, so that a dead connection is noticed."""
        yield "retry: 1000\n\n"
        if seen == WAITING:
            late = self.late.get(asked_for(view, query))
            while late and not late.done():
                if await self.ends_within(0.1):
                    return
            yield "event: reload\ndata: \n\n"
            return
        before: Page | None = None
        state: object = None
        quiet = 0.0
        while True:
            begun = time.monotonic()
            try:
                now = await self.read(lambda: self.state(view, query), view)
                if now != state or before is None:
                    page = await self.read(lambda: self.page(view, query), view)
                    sent = page.changes(before) if before else {} if mark(page) == seen else {n: str(p) for n, p in page.parts.items()}
                    before, state = page, now
                    if sent:
                        quiet = 0.0
                        yield f"id: {mark(page)}\nevent: parts\ndata: {json.dumps(sent)}\n\n"
            except (UserError, InfraError) as error:
                log.info("no longer live: %s", error)
                yield "event: reload\ndata: \n\n"
                return
            pause = max(POLL_S, min(1.0, time.monotonic() - begun))  # at most half of a core for who only looks
            if await self.ends_within(pause):
                return
            quiet += pause
            if quiet >= BEAT_S:
                quiet = 0.0
                yield ": still here\n\n"

    def application(self, host: str, port: int, token: str = "") -> Guard:
        """Everything, behind its guard."""
        pages = [Route("/" if view == "runs" else f"/{view}", self.show) for view in VIEWS]
        routes = [*pages, Route("/live", self.live), Route("/static/{name}", asset)]
        return Guard(Starlette(routes=routes, lifespan=self.lifespan), host, port, token)


async def asset(request: Request) -> Response:
    """One of the files that come with the package."""
    name = request.path_params["name"]
    if name not in ASSETS:
        return PlainTextResponse("no such file", 404)
    text = (HERE / "static" / name).read_text()
    return Response(text, media_type=ASSETS[name], headers={"cache-control": "no-cache"})


def run(site: Site, host: str, token: str, listening: socket.socket) -> None:
    """Serves until it is told to end, and then lets nobody wait who only looks."""

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            site.ending.set()
            super().handle_exit(sig, frame)

    app = site.application(host, listening.getsockname()[1], token)
    settings: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False, "lifespan": "on"}
    Server(uvicorn.Config(app, timeout_graceful_shutdown=3, **settings)).run(sockets=[listening])


def folder_or_trouble(folder: Path) -> Path:
    """A folder that can be served."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: name a run folder, or one that holds run folders")
    return folder
