"""The page as people get it: a server on a free port, and a real browser where the machine has one."""

import os
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

for folder in ("reports", "memory", "web"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


class Served:
    """A page that runs in a thread of the test's."""

    def __init__(self, folders, banks=(), host="127.0.0.1", token=""):
        import uvicorn

        from evokernel.web.run_index import Shelf
        from evokernel.web.server import Site

        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.site = Site(Shelf(folders, banks))
        app = self.site.application(host, self.port, token)
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=2))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)

    def stop(self):
        self.site.ending.set()
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()


@pytest.fixture
def serve(monkeypatch):
    """Starts servers that end with the test."""
    made = []
    for name in ("starlette", "uvicorn"):
        pytest.importorskip(name, reason="the page needs evokernel[web]")
    monkeypatch.setattr("evokernel.web.server.LOOK_S", 0.2)
    monkeypatch.setattr("evokernel.web.server.PATIENCE_S", 40.0)

    def start(*args, **more):
        made.append(Served(*args, **more))
        return made[-1]

    yield start
    for one in made:
        one.stop()


def browser_path() -> str | None:
    """A browser on this machine: the one named, the system's, or Playwright's own."""
    found = os.environ.get("EVOKERNEL_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    caches = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    return next((str(path) for path in sorted(caches.glob("chromium*/chrome-*/*")) if path.name in ("chrome", "headless_shell")), None)


@pytest.fixture(scope="session")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="tests in a browser need Playwright: pip install 'evokernel[browser]'")
    path = browser_path()
    if path is None:
        pytest.skip("no Chromium on this machine: install one, or name it in EVOKERNEL_CHROMIUM")
    with api.sync_playwright() as play:
        made = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(browser):
    """A page that must run without a single complaint of the browser's."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(45_000)
    made = context.new_page()
    said = []
    made.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    made.on("pageerror", lambda error: said.append(str(error)))
    made.said = said
    yield made
    context.close()
    assert said == []
