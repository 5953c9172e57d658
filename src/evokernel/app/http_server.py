"""What the dashboard and the service share: the socket, who may reach it, and how uvicorn stops. Needs no web framework to import."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(24)


def host_in_url(host: str) -> str:
    """The host as it appears in a URL."""
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return f"[{name}]" if ":" in name else name


def names_server(host_header: str, host: str, port: int) -> bool:
    """Whether a Host header names this server. A foreign name that resolves to this machine (DNS rebinding) does not."""
    try:
        name = urlsplit(f"//{host_header}")
        return name.hostname in {*LOOPBACK, host} and (name.port or 80) == port
    except ValueError:
        return False


def is_same_site(headers: Mapping[str, str]) -> bool:
    """Whether the request comes from our own pages or the address bar. Another site may link to a page, but it may not read one."""
    origin = headers.get("origin")
    try:
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return False
    except ValueError:
        return False
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
    return site in ("none", "same-origin") or (mode == "navigate" and headers.get("sec-fetch-dest", "document") == "document")


def run_until_stopped(app: Any, listener: socket.socket, on_signal: Callable[[Callable[[], None]], bool], **settings: Any) -> None:
    """Serve with uvicorn. `on_signal` gets a function that stops the server, and returns whether the signal stops it at once."""
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if on_signal(self.stop):
                super().handle_exit(sig, frame)

        def stop(self) -> None:
            self.should_exit = True

    common: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False, "lifespan": "on"}
    Server(uvicorn.Config(app, **common | settings)).run(sockets=[listener])
