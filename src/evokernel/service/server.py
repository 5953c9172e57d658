"""The web application of the service, and the process that serves it until a signal."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable

from fastapi import FastAPI

from evokernel import __version__
from evokernel.app.http_server import run_until_stopped
from evokernel.service import library_routes, routes
from evokernel.service.guard import RequestGuard, StreamLimiter
from evokernel.service.problems import install_handlers
from evokernel.service.tenants import TokenFile
from evokernel.service.verification_queue import VerificationQueue

log = logging.getLogger(__name__)
DESCRIPTION = "Verifies kernels for PyTorch operators: correctness on secret inputs, memory safety, and time against baselines."


def build_api(queue: VerificationQueue) -> FastAPI:
    """The application without its guard. There are no pages with scripts: they would come from another server."""
    app = FastAPI(title="EvoKernel", version=__version__, description=DESCRIPTION, docs_url=None, redoc_url=None)
    app.state.queue, app.state.streams = queue, StreamLimiter()
    for router in (routes.router, library_routes.router, library_routes.open_router):
        app.include_router(router)
    install_handlers(app)
    return app


def build_application(queue: VerificationQueue, tokens: TokenFile | None, host: str, port: int) -> RequestGuard:
    """The complete application behind its guard."""
    return RequestGuard(build_api(queue), tokens, queue.metrics, host, port)


class Drain:
    """What happens at a signal: the first lets running verifications end, the second stops at once."""

    def __init__(self, queue: VerificationQueue, limit_s: float) -> None:
        self.queue, self.limit_s, self.is_begun = queue, limit_s, False

    def __call__(self, stop: Callable[[], None]) -> bool:
        if self.is_begun:
            self.exit_now()
        self.is_begun = True
        timer = threading.Timer(self.limit_s, self.exit_now)
        timer.daemon = True
        timer.start()
        threading.Thread(target=self.begin, args=(stop,), daemon=True).start()  # not in the signal handler: it takes locks
        return False

    def begin(self, stop: Callable[[], None]) -> None:
        """Let what runs end, then stop the server."""
        log.warning("stopping when running verifications have ended; a second signal stops at once")
        self.queue.drain(stop)

    def exit_now(self) -> None:
        """End the process with what still runs: the journal has it, and the next start continues it. Workers end with their pipe."""
        log.warning("stopped while verifications were running; the next start continues them")
        os._exit(1)


def run_server(queue: VerificationQueue, tokens: TokenFile | None, host: str, listener: socket.socket, drain_s: float) -> None:
    """Serve until a signal; then finish what runs and keep what is queued."""
    app = build_application(queue, tokens, host, listener.getsockname()[1])
    queue.start()
    try:
        run_until_stopped(app, listener, Drain(queue, drain_s), timeout_graceful_shutdown=5)
    finally:
        queue.close()
