"""Which tests need a toolchain, and a guard against tests that start a program without saying so."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
FOLDERS = ("crash", "executors", "sandbox", "web")
"""Every test below these folders needs a toolchain."""
TOOLS = (
    *(
        "subprocess",
        "jax",
        "triton",
        "ray",
        "playwright",
        "torchax",
        "evokernel.app import",
        "evokernel.app.factory",
        "evokernel.verify import",
    ),
    *("evokernel.backends.native.toolchain", "cann_toolkit", "vector_bench", "library_kernels", "quick_builds"),
    *("chat_server", "embedding_server", "package_index", "postgres_server"),
)
"""Every test in a file that imports one of these needs a toolchain, unless the file itself marks some of its tests with `toolchain`."""
FIXTURES = {"postgres", "browser", "serve", "call", "compiled", "hostile", "only_index"}
"""Every test with one of these fixtures needs a toolchain."""
IMPORT = re.compile(rf"^(?:import|from) (?:{'|'.join(map(re.escape, TOOLS))})\b", re.MULTILINE)
OWN_MARK = "mark.toolchain"
PROGRAM_EVENTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "socket.bind")
QUICK_PROGRAMS = ("git", "uname")
HEAVY_MODULES = ("jax", "ray", "playwright")


def needs_toolchain(item: pytest.Item) -> bool:
    """Whether a test says so itself, or stands in a file or folder or has a fixture that says so."""
    fixtures = FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("toolchain") is not None or bool(fixtures) or is_toolchain_path(item.path)


@cache
def is_toolchain_path(path: Path) -> bool:
    """Whether all tests in a file or folder need a toolchain."""
    if any(path.is_relative_to(HERE / folder) for folder in FOLDERS):
        return True
    text = path.read_text() if path.suffix == ".py" else ""
    return OWN_MARK not in text and bool(IMPORT.search(text))


class ProgramGuard:
    """Fails a test that starts a program or a server or imports a heavy module."""

    def __init__(self) -> None:
        self.is_watching = False
        sys.addaudithook(self.check_event)

    def check_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_watching:
            return
        if event in PROGRAM_EVENTS:
            words = arguments[1] if len(arguments) > 1 else ()
            program = Path(str(words[0])).name if isinstance(words, list | tuple) and words else str(words)
            if program not in QUICK_PROGRAMS:
                self.refuse(f"{event} {words}"[:200])
        elif event == "import" and arguments[0] in HEAVY_MODULES:
            self.refuse(f"import {arguments[0]}")

    def refuse(self, what: str) -> None:
        self.is_watching = False
        pytest.fail(f"not a fast test: mark it with pytest.mark.toolchain, or extend the rules in tests/tiers.py. It did: {what}")

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Fail inside the block at the first program."""
        self.is_watching = True
        try:
            yield
        finally:
            self.is_watching = False
