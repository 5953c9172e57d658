"""Who may ask for what: nobody from another site, nobody without the token where one is set, and nothing but reading."""

from __future__ import annotations

import hmac
import secrets
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Guard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, host: str, port: int, token: str = "") -> None:
        self.app, self.host, self.port, self.token = app, host, port, token
        self.cookie = f"evokernel-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self.refusal(scope)
        await (refused or self.app)(scope, receive, sealed)

    def refusal(self, scope: Scope) -> Response | None:
        """What is answered instead; None for a request that may pass."""
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("this page is only read", 405, {"allow": "GET, HEAD"})
        if not self.knows(headers.get("host", "")):
            return PlainTextResponse("this address is not one of mine", 421)
        if not same_site(headers):
            return PlainTextResponse("other sites may not ask", 403)
        return self.unknown(scope, headers) if self.token else None

    def knows(self, asked: str) -> bool:
        """Whether the request was meant for us: a name that somebody let point at this machine is not ours."""
        if self.token:
            return bool(asked)
        name = urlsplit(f"//{asked}")
        try:
            return name.hostname in {*LOOPBACK, self.host} and (name.port or 80) == self.port
        except ValueError:
            return False

    def unknown(self, scope: Scope, headers: Headers) -> Response | None:
        """Lets in who has the token: in the first link, after that in a cookie."""
        given = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if (token := given.pop("token", None)) is not None and self.is_token(token):
            answer = RedirectResponse(scope["path"] + (f"?{urlencode(given)}" if given else ""), 303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="lax", path="/")
            return answer
        cookies = dict(pair.strip().partition("=")[::2] for pair in headers.get("cookie", "").split(";"))
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if any(self.is_token(text) for text in (cookies.get(self.cookie, ""), bearer)):
            return None
        return PlainTextResponse("a token is needed: open the link that 'evokernel web' printed", 401)

    def is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.token.encode())


def same_site(headers: Headers) -> bool:
    """Whether a request comes from our own page or from the address line; a link from elsewhere may open a page, not read it."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return False
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
    return site in ("none", "same-origin") or (mode == "navigate" and headers.get("sec-fetch-dest", "document") == "document")
