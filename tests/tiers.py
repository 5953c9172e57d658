"""Which tests need a toolchain, and a guard against tests that need one without saying so."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FOLDERS = ("crash", "sandbox", "web")
"""All tests below these folders need a toolchain, and `--fast` does not even import them."""
FIXTURES = {"postgres", "browser", "page", "serve"}
"""All tests with one of these fixtures need a toolchain."""
PROGRAM_EVENTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind")
HEAVY_MODULES = ("jax", "ray", "triton", "playwright")


def needs_toolchain(item: pytest.Item) -> bool:
    """Whether a test says so itself, or stands in a folder or has a fixture that does."""
    fixtures = FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("toolchain") is not None or bool(fixtures) or is_toolchain_path(item.path)


def is_toolchain_path(path: Path) -> bool:
    """Whether all tests in a file or folder need a toolchain."""
    return any(path.is_relative_to(HERE / folder) for folder in FOLDERS)


class ProgramGuard:
    """Notes which programs and servers this process starts, and which heavy modules it imports, while `watch` is active."""

    def __init__(self) -> None:
        self.found: list[str] | None = None
        sys.addaudithook(self.note_event)

    def note_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.found is None:
            return
        if event in PROGRAM_EVENTS:
            self.found.append(f"{event} {arguments[1] if len(arguments) > 1 else ''}".strip()[:200])
        elif event == "import" and arguments[0] in HEAVY_MODULES:
            self.found.append(f"import {arguments[0]}")

    @contextmanager
    def watch(self) -> Iterator[list[str]]:
        self.found = found = []
        try:
            yield found
        finally:
            self.found = None
