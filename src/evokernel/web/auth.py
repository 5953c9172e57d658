"""Access control of the dashboard: it refuses other sites, requests without the token where one is set, and everything but reading."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from evokernel.app.http_server import is_same_site, names_server

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class AccessGuard:
    """ASGI middleware: refuses requests that are not allowed and adds the security headers to every response."""

    def __init__(self, app: ASGIApp, host: str, port: int, token: str = "") -> None:
        self.app, self.host, self.port, self.token = app, host, port, token
        self.cookie = f"evokernel-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = self.refuse_request(scope)
        await (refusal or self.app)(scope, receive, send_with_headers)

    def refuse_request(self, scope: Scope) -> Response | None:
        """The response that refuses a request, or None if the application may answer it."""
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("The dashboard is read-only.", 405, {"allow": "GET, HEAD"})
        if not self.is_own_host(headers.get("host", "")):
            return PlainTextResponse("This server does not answer for that host name.", 421)
        if not is_same_site(headers):
            return PlainTextResponse("Requests from other sites are refused.", 403)
        return self.check_token(scope, headers) if self.token else None

    def is_own_host(self, host_header: str) -> bool:
        """Whether the Host header names this server; with a token any name will do."""
        return bool(host_header) if self.token else names_server(host_header, self.host, self.port)

    def check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """None if the request carries the token. A token in the URL moves into a cookie; without a token the answer is 401."""
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if (token := query.pop("token", None)) is not None and self.is_valid_token(token):
            answer = RedirectResponse(scope["path"] + (f"?{urlencode(query)}" if query else ""), 303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="lax", path="/")
            return answer
        cookies = dict(pair.strip().partition("=")[::2] for pair in headers.get("cookie", "").split(";"))
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if any(self.is_valid_token(text) for text in (cookies.get(self.cookie, ""), bearer)):
            return None
        return PlainTextResponse("A token is required: open the link that 'evokernel web' printed.", 401)

    def is_valid_token(self, text: str) -> bool:
        """Compare in constant time."""
        return hmac.compare_digest(text.encode(), self.token.encode())
