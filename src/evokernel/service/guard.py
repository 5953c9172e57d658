"""In front of every request: who asks, how often, and how much is sent. Nothing is parsed before that is known."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from evokernel.app.http_server import is_same_site, names_server
from evokernel.service.metrics import Metrics
from evokernel.service.problems import Problem, problem_response
from evokernel.service.tenants import LOCAL, Tenant, TokenFile

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN_PATHS = ("/healthz", "/openapi.json")
HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store", "referrer-policy": "no-referrer"}


class RateLimiter:
    """A bucket of requests for each tenant: it holds those of ten seconds and is filled steadily."""

    BURST_S = 10.0

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.buckets: dict[str, tuple[float, float]] = {}

    def take(self, tenant: Tenant, now: float | None = None) -> int:
        """Take one request; return 0, or the seconds after which the next one is allowed."""
        now = time.monotonic() if now is None else now
        per_second = tenant.requests_per_minute / 60
        capacity = max(1.0, per_second * self.BURST_S)
        with self.lock:
            amount, filled_at = self.buckets.get(tenant.name, (capacity, now))
            amount = min(capacity, amount + (now - filled_at) * per_second)
            is_allowed = amount >= 1
            self.buckets[tenant.name] = (amount - 1 if is_allowed else amount, now)
        return 0 if is_allowed else math.ceil((1 - amount) / per_second)


class StreamLimiter:
    """Counts the requests of each tenant that stay open."""

    def __init__(self) -> None:
        self.lock, self.open = threading.Lock(), Counter[str]()

    @contextmanager
    def hold(self, tenant: Tenant) -> Iterator[None]:
        """Hold one of the tenant's places. Raises Problem if there is none."""
        with self.lock:
            if self.open[tenant.name] >= tenant.max_streams:
                detail = f"{tenant.max_streams} of your requests wait already; wait for one of them, or ask without waiting"
                raise Problem.retry_later(429, detail, 5)
            self.open[tenant.name] += 1
        try:
            yield
        finally:
            with self.lock:
                self.open[tenant.name] -= 1


class RequestGuard:
    """ASGI middleware: finds the tenant (`scope["state"]["tenant"]`), applies its limits, and counts requests."""

    def __init__(self, app: ASGIApp, tokens: TokenFile | None, metrics: Metrics, host: str, port: int) -> None:
        self.app, self.tokens, self.metrics, self.host, self.port = app, tokens, metrics, host, port
        self.rates = RateLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            try:
                body_limit = self.admit(scope)
                receive = await buffer_body(scope, receive, body_limit)
            except Problem as problem:
                await problem_response(problem)(scope, receive, send_with_headers)
                return
            await self.app(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "unknown")
            self.metrics.requests.labels(scope["method"], route, str(status)).inc()

    def admit(self, scope: Scope) -> int:
        """Find the tenant and take one of its requests; return how many bytes it may send. Raises Problem."""
        if scope["path"] in OPEN_PATHS:
            return 0
        headers = Headers(scope=scope)
        tenant = self.find_tenant(headers)
        if wait_s := self.rates.take(tenant):
            raise Problem.retry_later(429, f"more than {tenant.requests_per_minute} requests in a minute; slow down", wait_s)
        scope.setdefault("state", {})["tenant"] = tenant
        return tenant.max_request_bytes

    def find_tenant(self, headers: Headers) -> Tenant:
        """The tenant of a request. Without a token file, every request from this machine that no web page sent is the tenant `local`."""
        if self.tokens is None:
            if not names_server(headers.get("host", ""), self.host, self.port):
                raise Problem(403, "this server does not answer for that host name")
            if not is_same_site(headers):
                raise Problem(403, "requests from web pages are refused")
            return LOCAL
        scheme, _, token = headers.get("authorization", "").partition(" ")
        tenant = self.tokens.find_tenant(token.strip()) if scheme.lower() == "bearer" else None
        if tenant is None:
            raise Problem(401, "send a valid token: Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})
        return tenant


async def buffer_body(scope: Scope, receive: Receive, limit: int) -> Receive:
    """Read the body of a request, at most `limit` bytes. Raises Problem if it is larger."""
    too_large = Problem(413, f"the body is larger than {limit} bytes; send fewer or smaller kernels", {"connection": "close"})
    length = Headers(scope=scope).get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise too_large
    body, has_more = bytearray(), scope["method"] in ("POST", "PUT", "PATCH")
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return receive
        body += message.get("body", b"")
        has_more = message.get("more_body", False)
        if len(body) > limit:
            raise too_large
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    return replay
