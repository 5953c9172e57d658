"""Fixtures of the dashboard tests: a server on a free port, and a real browser if the machine has one."""

import os
import shutil
import socket
import threading
import time
from pathlib import Path

import pytest
from time_limits import HANG_S

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


class ServedDashboard:
    """A dashboard that runs in a thread of the test."""

    def __init__(self, folders, banks=(), host="127.0.0.1", token=""):
        import uvicorn

        from evokernel.web.run_index import RunIndex
        from evokernel.web.server import Dashboard

        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.dashboard = Dashboard(RunIndex(folders, banks))
        app = self.dashboard.build_application(host, self.port, token)
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=2))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def stop(self):
        self.dashboard.ending.set()
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()


@pytest.fixture
def serve(monkeypatch):
    """Starts dashboards that stop at the end of the test."""
    servers = []
    for name in ("starlette", "uvicorn"):
        pytest.importorskip(name, reason="the dashboard needs evokernel[web]")
    monkeypatch.setattr("evokernel.web.server.RESCAN_S", 0.2)
    monkeypatch.setattr("evokernel.web.server.PAGE_WAIT_S", 40.0)

    def start(*args, **more):
        servers.append(ServedDashboard(*args, **more))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def browser_path() -> str | None:
    """The path of a browser: from the environment, the system or Playwright."""
    path = os.environ.get("EVOKERNEL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path:
        return path
    caches = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    return next((str(path) for path in sorted(caches.glob("chromium*/chrome-*/*")) if path.name in ("chrome", "headless_shell")), None)


@pytest.fixture(scope="module")
def browser():
    """A browser. Playwright occupies the thread's event loop until it stops, so that tests of other modules could not use asyncio."""
    api = pytest.importorskip("playwright.sync_api", reason="tests in a browser need Playwright: pip install 'evokernel[browser]'")
    path = browser_path()
    if path is None:
        pytest.skip("no Chromium on this machine: install one, or name it in EVOKERNEL_CHROMIUM")
    with api.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser):
    """A browser page that must not log any error or warning."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(HANG_S * 1000)
    page = context.new_page()
    messages = []
    page.on("console", lambda message: messages.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.messages = messages
    yield page
    context.close()
    assert messages == []
